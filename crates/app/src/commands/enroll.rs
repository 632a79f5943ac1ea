//! `xebec enroll`: what a node needs to join a cluster, as files: who it is, and what it serves
//! with. Made where the cluster's authority is; nobody is asked.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use apimachinery::validation::is_dns_subdomain;
use authn::pki::{Authority, Identity};
use client::kubeconfig;
use stdx::World;

use crate::cluster::Selection;
use crate::data_dir::{self, make_private, write_private};
use crate::kubeconfig_file::{self, Cluster};
use crate::progress::say;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Name of the node
    #[arg(value_name = "NODE")]
    node: String,
    /// Addresses at which the API server reaches its kubelet
    #[arg(long, value_name = "IP,...", value_delimiter = ',', required = true)]
    address: Vec<IpAddr>,
    /// Where the node reaches the API server, such as https://192.0.2.1:6443 (default: where this
    /// machine does)
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Where the files are written (default: a directory of the node's name)
    #[arg(long, short, value_name = "DIR", value_parser = data_dir::parser())]
    output: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    if let Some(problem) = is_dns_subdomain(&flags.node).first() {
        bail!("{:?} is no name of a node: {problem}", flags.node);
    }
    let output = match &flags.output {
        Some(directory) => directory.clone(),
        None => std::path::absolute(&flags.node).context("finding the current directory")?,
    };
    let data = flags.selection.find()?;
    let authority = authority(&data.join("pki"))?;
    let server = match &flags.server {
        Some(server) => server.clone(),
        None => kubeconfig::pick(&read(&data.join("kubeconfig"))?, None)?.server,
    };
    make_private(&output).with_context(|| format!("making {}", output.display()))?;
    let cluster =
        Cluster { context: "xebec".to_owned(), server, ca_pem: authority.certificate_pem().into() };
    write(&output, flags, &cluster, &authority)?;
    tell(&output, &flags.node);
    Ok(())
}

/// Of a cluster that there is: none is made here.
fn authority(pki: &Path) -> Result<Authority> {
    let (certificate, key) = (read(&pki.join("ca.crt"))?, read(&pki.join("ca.key"))?);
    let loaded = Authority::load(&certificate, &key);
    loaded.with_context(|| format!("reading the certificate authority in {}", pki.display()))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn write(output: &Path, flags: &Flags, cluster: &Cluster, authority: &Authority) -> Result<()> {
    let World { clock, random } = World::system();
    let (now, node) = (clock.now(), flags.node.as_str());
    let user = format!("system:node:{node}");
    let kubelet = authority.issue_client(&user, &["system:nodes"], now, &random)?;
    kubeconfig_file::write(&output.join("kubelet.kubeconfig"), cluster, &kubelet)?;
    let proxy = authority.issue_client("system:kube-proxy", &[], now, &random)?;
    kubeconfig_file::write(&output.join("proxy.kubeconfig"), cluster, &proxy)?;
    let Identity { certificate_pem, private_key_pem } =
        authority.issue_server(&user, &[node], &flags.address, now, &random)?;
    let files = [
        ("kubelet.key", private_key_pem.as_str()),
        ("kubelet.crt", &certificate_pem),
        ("ca.crt", authority.certificate_pem()),
    ];
    for (name, text) in files {
        let path = output.join(name);
        write_private(&path, text.as_bytes())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn tell(output: &Path, node: &str) {
    let of = |name: &str| output.join(name).display().to_string();
    say(&format!("files of node {node} are in {}; there, run", output.display()));
    say(&format!(
        "  xebec kubelet --hostname-override {node} --kubeconfig {} --tls-cert-file {} --tls-private-key-file {} \
         --client-ca-file {}",
        of("kubelet.kubeconfig"),
        of("kubelet.crt"),
        of("kubelet.key"),
        of("ca.crt")
    ));
    say(&format!(
        "  xebec proxy --hostname-override {node} --kubeconfig {}",
        of("proxy.kubeconfig")
    ));
}
