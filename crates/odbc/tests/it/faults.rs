//! A driver that is missing, a server that refuses, and batches that fail in the middle.
