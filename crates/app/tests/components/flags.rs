//! What upstream's flags may say here, and what is refused before anything is asked.

use std::process::Command;

/// The exit code, and what was said.
fn run(command: &str, flags: &[&str]) -> (Option<i32>, String) {
    let mut xebec = Command::new(env!("CARGO_BIN_EXE_xebec"));
    let output = xebec.arg(command).args(flags).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn flags_are_taken_as_go_takes_them() {
    let check = |command: &str, flags: &[&str]| {
        let kubeconfig = ["--kubeconfig", "/nowhere/kubeconfig"];
        let (code, said) = run(command, &[flags, &kubeconfig].concat());
        assert_eq!(code, Some(1), "{flags:?}: {said}");
        assert!(said.contains("reading /nowhere/kubeconfig"), "{flags:?}: {said}");
    };
    for command in ["controller-manager", "scheduler"] {
        check(command, &["--leader-elect"]);
        check(command, &["--leader-elect=T", "--leader_elect=0"]);
        check(command, &["--profiling=false", "--contention-profiling=false", "--vmodule="]);
        check(command, &["--tls-min-version=VersionTLS12", "--tls-min-version=VersionTLS13"]);
        check(command, &["--authentication-skip-lookup", "--client-ca-file="]);
        check(command, &["--http2-max-streams-per-connection=250", "--permit-port-sharing"]);
        check(command, &["--master=https://127.0.0.1:1", "-v=2", "--log-flush-frequency=1s"]);
    }
    let manager = |flags: &[&str]| check("controller-manager", flags);
    manager(&["--use-service-account-credentials", "--allocate-node-cidrs"]);
    // Of an authority that is somewhere else, as kubeadm writes it.
    manager(&["--cluster-signing-cert-file=", "--cluster-signing-key-file="]);
    manager(&["--cloud-provider=external", "--configure-cloud-routes=false"]);
    manager(&["--namespace-sync-period=10m", "--concurrent-ephemeralvolume-syncs=5"]);
    manager(&["--enable-garbage-collector=false", "--concurrent_rc_syncs=7"]);
}

#[test]
fn what_asks_for_something_that_is_not_here_is_refused_with_the_reason() {
    let check = |command: &str, flags: &[&str], expected: &str| {
        let kubeconfig = ["--kubeconfig", "/nowhere/kubeconfig"];
        let (code, said) = run(command, &[flags, &kubeconfig].concat());
        assert_eq!(code, Some(64), "{flags:?}: {said}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(expected), "{flags:?}: {said}");
    };
    for command in ["controller-manager", "scheduler"] {
        let check = |flag: &str, expected: &str| check(command, &[flag], expected);
        check("--profiling", "there are no profiles, and no /debug/pprof");
        check("--leader-elect=maybe", "\"maybe\" is neither true nor false");
        check("--tls-min-version=VersionTLS10", "choose VersionTLS12 or VersionTLS13");
        check("--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256", "choose among TLS_AES_256");
        check("--tls-curve-preferences=25", "choose among");
        check("--tls-sni-cert-key=a.crt,a.key", "--tls-cert-file is for every name");
        check("--http2-max-streams-per-connection=7", "every connection has 250");
        check("--authorization-always-allow-paths=/a*b", "only trailing * allowed in");
        check("--requestheader-username-headers=X-User", "--requestheader-client-ca-file");
        check("--disabled-metrics=up", "every metric is shown");
        check("--emulated-version=1.35", "this is v1.36, and nothing else");
    }
    let manager = |flag: &str, expected: &str| check("controller-manager", &[flag], expected);
    manager(
        "--cloud-provider=aws",
        "cloud provider \"aws\" was specified, but built-in cloud providers are disabled",
    );
    manager("--cidr-allocator-type=CloudAllocator", "clouds have controller managers of their own");
    manager(
        "--concurrent-ephemeralvolume-syncs=6",
        "ephemeral-volume-controller does not run here",
    );
    manager("--pv-recycler-minimum-timeout-nfs=1", "persistentvolume-binder-controller does not");
    check("scheduler", &["--config=/etc/scheduler.yaml"], "unexpected argument '--config'");
}
