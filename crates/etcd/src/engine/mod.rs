//! A store over an etcd cluster.
