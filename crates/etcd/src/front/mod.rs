//! Serves a store to etcd's clients.
