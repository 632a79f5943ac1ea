//! What every container gets unless it asks otherwise, as containerd gives it.
