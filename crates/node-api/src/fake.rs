//! A node in memory, for tests of what stands on it.
