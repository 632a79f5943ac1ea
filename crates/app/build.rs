//! How the binary is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Not position independent: a holder that starts relocates nothing, so its pages stay those of the file.
    println!("cargo:rustc-link-arg-bins=-no-pie");
}
