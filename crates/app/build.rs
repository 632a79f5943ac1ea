//! How the binary is linked.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Not position independent: a holder that starts relocates nothing, so its pages stay those of
    // the file.
    println!("cargo:rustc-link-arg-bins=-no-pie");
    let is_release = std::env::var("PROFILE").is_ok_and(|it| it == "release");
    if is_release {
        // The profile says so too, but not of a package that has a line of its own in it.
        println!("cargo:rustc-link-arg-bins=-Wl,--strip-all");
    }
    if is_release && has_lld() {
        // Many functions are compiled in several crates, alike to the byte: one of each is enough.
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Whether programs are linked by the linker that comes with the compiler, as is the rule for this
/// target. Others would not know the word.
fn has_lld() -> bool {
    let target = std::env::var("TARGET").unwrap_or_default();
    if target != "x86_64-unknown-linux-gnu" {
        return false;
    }
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(compiler).args(["--print", "sysroot"]).output();
    let sysroot = output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
    sysroot.is_ok_and(|it| {
        Path::new(&it).join("lib/rustlib").join(target).join("bin/rust-lld").exists()
    })
}
