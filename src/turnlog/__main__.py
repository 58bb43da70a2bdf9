"""`python -m turnlog` and the command `turnlog`."""

import sys


def main() -> None:
    """Run the command line; ends the process."""
    try:
        from turnlog._command_line import turnlog
        from turnlog.replay.cli import end_on_signals

        end_on_signals()
        turnlog(prog_name="turnlog")
    except KeyboardInterrupt:  # before the command line was there to take it
        sys.exit(130)


if __name__ == "__main__":
    main()
