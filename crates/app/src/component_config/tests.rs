//! Text in, text out: what is refused, and in which words.

use std::path::Path;

use super::fields::Field;
use super::kubelet::{self, KubeletConfiguration};
use super::proxy::{self, KubeProxyConfiguration};
use super::{Document, Kind};

/// A file of the kind with this content.
fn document(kind: &'static Kind, text: &str) -> Document {
    let head = format!("apiVersion: {}\nkind: {}\n", kind.api_version, kind.kind);
    Document::parse(kind, Path::new("c.yaml"), &(head + text)).unwrap()
}

fn kubelet(text: &str) -> Result<KubeletConfiguration, Vec<String>> {
    KubeletConfiguration::new(document(&kubelet::KIND, text)).map_err(problems)
}

fn proxy(text: &str) -> Result<KubeProxyConfiguration, Vec<String>> {
    KubeProxyConfiguration::new(document(&proxy::KIND, text)).map_err(problems)
}

fn problems(err: super::Error) -> Vec<String> {
    match err {
        super::Error::Refused { problems, .. } => problems,
        other => vec![stdx::error_chain(&other)],
    }
}

#[test]
fn every_line_of_a_table_is_read_and_its_default_has_its_form() {
    for kind in [&kubelet::KIND, &proxy::KIND] {
        let lines = kind.table.lines().filter(|it| !it.starts_with('#'));
        let mut paths = Vec::new();
        for line in lines {
            let field = Field::parse(line).unwrap_or_else(|| panic!("{line:?}"));
            let is_right = field.default.is_null()
                || field.is_unset(&field.default)
                || field.form.mismatch(&field.default).is_none();
            assert!(is_right, "{line:?}");
            paths.push(field.path);
        }
        let n_paths = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), n_paths, "a field is there twice");
    }
}

#[test]
fn without_a_file_there_are_upstreams_defaults() {
    let configuration = kubelet("").unwrap();
    assert_eq!(configuration.address.to_string(), "0.0.0.0");
    assert_eq!((configuration.port, configuration.healthz_port), (10250, 10248));
    assert_eq!(configuration.max_pods, 110);
    assert!(configuration.register_node);
    let configuration = proxy("").unwrap();
    assert_eq!(configuration.healthz().unwrap().to_string(), "0.0.0.0:10256");
    assert_eq!(configuration.metrics().unwrap().to_string(), "127.0.0.1:10249");
}

#[test]
fn a_kubelets_file_is_honored_or_refused_by_its_paths() {
    let check = |text: &str, expected: &[&str]| {
        assert_eq!(kubelet(text).err().unwrap_or_default(), expected, "{text}");
    };
    check("maxPods: 20\nclusterDNS: [10.96.0.10]\nfeatureGates: {SidecarContainers: true}", &[]);
    // Defaults may be written down, in any of their spellings; so may nothing.
    check("syncFrequency: 60s\nruntimeRequestTimeout: 2m0s\nenableServer: true", &[]);
    check("syncFrequency: 0s\naddress: ''\nmaxPods: 0\ncgroupDriver: null", &[]);
    check("authentication: {anonymous: {enabled: false}, webhook: {}}\nmemorySwap: {}", &[]);
    check("logging: {flushFrequency: 0, options: {json: {infoBufferSize: '0'}}}", &[]);
    check(
        "cgroupDriver: systemd\nreadOnlyPort: 10255\nauthentication: {anonymous: {enabled: true}}",
        &[
            "authentication.anonymous.enabled: true is not supported: only its default is, false",
            "cgroupDriver: \"systemd\" is not supported: only its default is, \"cgroupfs\"",
            "readOnlyPort: 10255 is not supported: only its default is, 0",
        ],
    );
    check(
        "evictionHard: {memory.available: 1Gi}",
        &["evictionHard: {\"memory.available\":\"1Gi\"} is not supported: leave it out"],
    );
    check(
        "maxpods: 1\nauthentication: {x509: {ca: x}}",
        &["unknown field \"authentication.x509.ca\"", "unknown field \"maxpods\""],
    );
    check(
        "port: 70000\naddress: here\nmaxPods: many\nsyncFrequency: soon\nclusterDNS: [dns]",
        &[
            "address: expected an IP address, not \"here\"",
            "clusterDNS: expected a list of IP addresses, not [\"dns\"]",
            "maxPods: expected a whole number above 0, not \"many\"",
            "port: expected a port, from 0 to 65535, not 70000",
            "syncFrequency: expected a duration such as 1m30s, not \"soon\"",
        ],
    );
    check(
        "registerWithTaints: [{key: a, effect: NoSchedule}, {key: b, value: c, effect: Never}]",
        &["registerWithTaints: expected a list of taints with key, value and effect, not \
         [{\"effect\":\"NoSchedule\",\"key\":\"a\"},{\"effect\":\"Never\",\"key\":\"b\",\"value\":\"c\"}]"],
    );
    check("authentication: on", &["authentication: expected a mapping"]);
}

/// What `kubeadm init` wrote on a machine with systemd.
const OF_KUBEADM: &str = "\
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: ''
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging:
  flushFrequency: 0
  options: {json: {infoBufferSize: '0'}, text: {infoBufferSize: '0'}}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
";

#[test]
fn of_kubeadms_file_only_what_it_asks_for_beyond_defaults_is_refused() {
    let refused = kubelet(OF_KUBEADM).err().unwrap_or_default();
    assert_eq!(
        refused,
        [
            "cgroupDriver: \"systemd\" is not supported: only its default is, \"cgroupfs\"",
            "resolvConf: \"/run/systemd/resolve/resolv.conf\" is not supported: only its default is, \"/etc/resolv.conf\"",
            "rotateCertificates: true is not supported: only its default is, false",
        ]
    );
}

#[test]
fn what_is_laid_over_counts_and_flags_count_above_all() {
    let mut lower = document(&kubelet::KIND, "maxPods: 20\nport: 1\nfeatureGates: {A: true}");
    lower.lay_over(document(&kubelet::KIND, "port: 2\nfeatureGates: {B: false}"));
    lower.set("port", Some(3.into()));
    lower.set("authentication.x509.clientCAFile", Some("/ca".into()));
    lower.set("address", None);
    let configuration = KubeletConfiguration::new(lower).unwrap();
    assert_eq!((configuration.max_pods, configuration.port), (20, 3));
    assert_eq!(format!("{:?}", configuration.feature_gates), r#"{"A": true, "B": false}"#);
    assert_eq!(configuration.authentication.x509.client_ca_file, Path::new("/ca"));
}

#[test]
fn paths_are_relative_to_the_file_that_has_them() {
    let mut configuration = kubelet("staticPodPath: manifests\ntlsCertFile: /a.crt").unwrap();
    configuration.resolve(Path::new("/etc/kubernetes"));
    assert_eq!(configuration.static_pod_path, Path::new("/etc/kubernetes/manifests"));
    assert_eq!(configuration.tls_cert_file, Path::new("/a.crt"));
    assert_eq!(configuration.tls_private_key_file, Path::new(""));
}

#[test]
fn drop_ins_are_taken_in_the_order_of_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let head =
            format!("apiVersion: {}\nkind: {}\n", kubelet::KIND.api_version, kubelet::KIND.kind);
        std::fs::write(directory.path().join(name), head + text).unwrap();
    };
    write("20.conf", "maxPods: 20");
    write("10.conf", "maxPods: 10\nport: 10");
    write("30.yaml", "maxPods: 30");
    let mut all = Document::empty(&kubelet::KIND);
    all.lay_over_all(directory.path()).unwrap();
    let configuration = KubeletConfiguration::new(all).unwrap();
    assert_eq!((configuration.max_pods, configuration.port), (20, 10));
}

#[test]
fn a_file_of_another_kind_or_version_is_refused() {
    for text in [
        "",
        "kind: KubeletConfiguration",
        "apiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration",
    ] {
        let read = Document::parse(&kubelet::KIND, Path::new("c.yaml"), text);
        let err = read.err().map(|it| it.to_string());
        let expected = "c.yaml is not a KubeletConfiguration of kubelet.config.k8s.io/v1beta1";
        assert_eq!(err.as_deref(), Some(expected), "{text}");
    }
    let json = r#"{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":5}"#;
    let read = Document::parse(&kubelet::KIND, Path::new("c.json"), json).unwrap();
    assert_eq!(KubeletConfiguration::new(read).unwrap().max_pods, 5);
    let twice = "apiVersion: a\napiVersion: b";
    assert!(Document::parse(&kubelet::KIND, Path::new("c.yaml"), twice).is_err());
}

#[test]
fn a_proxys_file_is_honored_or_refused_by_its_paths() {
    let check = |text: &str, expected: &[&str]| {
        assert_eq!(proxy(text).err().unwrap_or_default(), expected, "{text}");
    };
    check(
        "mode: nftables\nclusterCIDR: 10.244.0.0/16\nconntrack: {maxPerCore: null, min: 131072}",
        &[],
    );
    check("clientConnection: {kubeconfig: /k, qps: 0, burst: 0, acceptContentTypes: ''}", &[]);
    check(
        "mode: ''\niptables: {syncPeriod: 0s, masqueradeBit: 14}\nwinkernel: {enableDSR: false}",
        &[],
    );
    check("mode: iptables", &[]);
    check(
        "mode: ipvs",
        &["mode: \"ipvs\" is not supported: choose ebpf or iptables or nftables or userspace"],
    );
    check("nodePortAddresses: [192.0.2.0/24]", &[]);
    check(
        "nodePortAddresses: [primary]",
        &["nodePortAddresses: \"primary\" is not supported: give ranges of addresses"],
    );
    check(
        "detectLocalMode: BridgeInterface",
        &["detectLocalMode: \"BridgeInterface\" is not supported: choose ClusterCIDR or NodeCIDR"],
    );
    check(
        "conntrack: {maxPerCore: 0}\nipvs: {strictARP: true}",
        &[
            "conntrack.maxPerCore: 0 is not supported: only its default is, 32768",
            "ipvs.strictARP: true is not supported: only its default is, false",
        ],
    );
    check(
        "healthzBindAddress: nowhere",
        &[
            "healthzBindAddress: expected an address and a port, such as 0.0.0.0:10256, not \"nowhere\"",
        ],
    );
}

#[test]
fn addresses_to_listen_on_are_read_as_upstream_reads_them() {
    let check = |text: &str, expected: &str| {
        let configuration = proxy(&format!("healthzBindAddress: '{text}'")).unwrap();
        let actual = configuration.healthz().map(|it| it.to_string());
        assert_eq!(actual.unwrap_or_else(|| "none".to_owned()), expected, "{text}");
    };
    check("", "0.0.0.0:10256");
    check("127.0.0.1", "127.0.0.1:10256");
    check("127.0.0.1:1", "127.0.0.1:1");
    check("::1", "[::1]:10256");
    check("[::1]:2", "[::1]:2");
    check(":3", "0.0.0.0:3");
    check("0.0.0.0:0", "none");
}
