"""What agents use: the store contract, stores, and shared memory."""
