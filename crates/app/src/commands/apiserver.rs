//! `xebec apiserver`: the API server alone. Writes kubeconfigs for the other components into its
//! data directory.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use stdx::World;

use super::network::{Cidrs, PortRange, parse_port_range, parse_service_cidrs};
use crate::api_server::{ApiServer, Settings, serve_on};
use crate::cluster::{Name, listen};
use crate::data_dir::DataDir;
use crate::progress::say;
use crate::{
    component, data_dir, datastore, front_proxy, kubeconfig_file, serve, server_names, token_keys,
};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Where objects, certificates and kubeconfigs are kept
    #[arg(long, value_name = "DIR", default_value_os_t = data_dir::default_path(&Name::default()), value_parser = data_dir::parser())]
    data_dir: PathBuf,
    /// Address to serve on
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    bind_address: IpAddr,
    #[command(flatten)]
    names: server_names::Flags,
    /// Port to serve HTTPS on
    #[arg(long, value_name = "N", default_value_t = 6443)]
    secure_port: u16,
    /// Addresses of Services
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "10.96.0.0/16", value_parser = parse_service_cidrs)]
    service_cluster_ip_range: Cidrs,
    /// Ports of Services of the type NodePort, the last one included
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767", value_parser = parse_port_range)]
    service_node_port_range: PortRange,
    /// Let in whoever comes with a bootstrap token (a Secret in kube-system), to become a node
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    enable_bootstrap_token_auth: bool,
    #[command(flatten)]
    front_proxy: front_proxy::Flags,
    #[command(flatten)]
    token_keys: token_keys::Flags,
    #[command(flatten)]
    datastore: datastore::Flags,
    /// Log level: 0 warnings, 1 and 2 information, 3 to 5 each request and decision, 6 and more
    /// everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    verbosity: u8,
    #[command(flatten)]
    component: component::Flags,
    #[command(flatten)]
    api: component::ApiFlags,
}

/// Components that get a kubeconfig: the file's name and the user.
const COMPONENTS: &[(&str, &str)] = &[
    ("controller-manager", "system:kube-controller-manager"),
    ("scheduler", "system:kube-scheduler"),
];

pub(crate) fn run(flags: Flags) -> Result<()> {
    flags.datastore.validate()?;
    flags.token_keys.validate()?;
    flags.names.validate(flags.bind_address)?;
    let runtime_config = flags.api.runtime_config(&[])?;
    let admission = flags.api.admission(&flags.component.gates())?;
    flags.component.start_logging(flags.verbosity);
    serve::run(|tasks| async move {
        let bind = SocketAddr::new(flags.bind_address, flags.secure_port);
        let settings = Settings {
            context: Name::default().context(),
            bind,
            service_cidrs: flags.service_cluster_ip_range,
            node_ports: flags.service_node_port_range,
            pods_reach: Vec::new(),
            node_addresses: Vec::new(),
            names: flags.names,
            datastore: flags.datastore,
            front_proxy: flags.front_proxy,
            token_keys: flags.token_keys,
            serving: flags.api.serving,
            has_components: false,
            has_bootstrap_tokens: flags.enable_bootstrap_token_auth,
            gates: flags.component.gates(),
            runtime_config,
            admission,
            metrics: flags.component.registry(),
        };
        // Before anything is made.
        data_dir::validate(&flags.data_dir)?;
        let listener = serve_on(listen(bind)?)?;
        let data = DataDir::open(&flags.data_dir)?;
        let api = ApiServer::start(data, listener, &settings, &World::system(), &tasks).await?;
        for (file, user) in COMPONENTS {
            let identity = api.pki.component(file, user)?;
            kubeconfig_file::write(&api.data.component_kubeconfig(file), &api.cluster, &identity)?;
        }
        say(&format!("API server ready on https://{}", api.address));
        Ok(api)
    })
}
