//! Ways to make the kernel serve Services. A back end describes purely what should be; its `apply`
//! alone asks the kernel.

pub mod nftables;
