//! What every component has, alone or not: log lines, feature gates, metrics of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum as _;
use features::{Gates, RuntimeConfig};
use telemetry::logs::Format;
use telemetry::{Build, Gate, Registry};

use crate::admission_plugins;
use crate::control_plane::KUBERNETES_VERSION;
use crate::datastore::parse_duration;

#[derive(clap::Args, Clone)]
#[group(id = "component")]
pub(crate) struct Flags {
    /// Feature gates of Kubernetes v1.36 to set; what xebec cannot switch is refused
    #[arg(long, value_name = "NAME=BOOL,...", value_parser = Gates::parse)]
    feature_gates: Vec<Gates>,
    /// Form of log lines (default: text)
    #[arg(long, alias = "log-format", value_name = "FORMAT")]
    logging_format: Option<LogFormat>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One object a line, with upstream's keys
    Json,
}

impl Flags {
    /// `verbosity` is upstream's `-v`.
    pub(crate) fn start_logging(&self, verbosity: u8) {
        let format = match self.logging_format {
            None | Some(LogFormat::Text) => Format::Text,
            Some(LogFormat::Json) => Format::Json,
        };
        telemetry::logs::start(verbosity, format);
        for (gate, value) in self.gates().leaving() {
            tracing::warn!(gate = gate.name, value, "this feature gate will be removed");
        }
    }

    /// What a configuration file says where no flag does.
    pub(crate) fn or_file(
        mut self,
        format: &str,
        gates: &BTreeMap<String, bool>,
    ) -> anyhow::Result<Self> {
        if self.logging_format.is_none() {
            let known = LogFormat::from_str(format, false);
            self.logging_format = Some(known.map_err(|_| {
                anyhow::anyhow!("logging.format: {format:?} is not supported: choose text or json")
            })?);
        }
        let gates: Vec<String> = gates.iter().map(|(name, on)| format!("{name}={on}")).collect();
        if !gates.is_empty() {
            let gates = Gates::parse(&gates.join(",")).context("featureGates")?;
            self.feature_gates.insert(0, gates);
        }
        Ok(self)
    }

    pub(crate) fn gates(&self) -> Gates {
        Gates::merge(self.feature_gates.iter().cloned())
    }

    /// For one page of metrics: with what all of them show.
    pub(crate) fn registry(&self) -> Registry {
        let registry = Registry::default();
        telemetry::process::publish(&registry);
        let build = Build {
            major: "1",
            minor: "36",
            git_version: KUBERNETES_VERSION,
            git_tree_state: "clean",
            build_date: "1970-01-01T00:00:00Z",
            compiler: "rustc",
            platform: &format!("{}/{}", std::env::consts::OS, crate::node::architecture()),
        };
        telemetry::publish_build(&registry, &build);
        let gates = self.gates();
        let gates = gates.iter().map(|(gate, is_enabled)| Gate {
            name: gate.name,
            stage: gate.stage.label(),
            is_enabled,
        });
        telemetry::publish_gates(&registry, gates);
        registry
    }
}

/// How a server of the API takes requests.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ServingFlags {
    /// How long a request may take, but for watches, logs and terminals
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_request_timeout)]
    pub(crate) request_timeout: Duration,
    /// Requests at once over one connection of HTTP/2; 0 is the default, 250
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=STREAMS_MAX))]
    http2_max_streams_per_connection: u32,
}

/// More would be more than a server has room for.
const STREAMS_MAX: i64 = 10_000;

impl ServingFlags {
    pub(crate) fn streams(&self) -> u32 {
        match self.http2_max_streams_per_connection {
            0 => serving::STREAMS_DEFAULT,
            some => some,
        }
    }
}

/// No time at all would answer nobody.
fn parse_request_timeout(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err("--request-timeout can not be negative value".to_owned());
    }
    match parse_duration(text)? {
        Duration::ZERO => Err("a request needs more than no time".to_owned()),
        time => Ok(time),
    }
}

/// Of servers of the API.
#[derive(clap::Args, Clone)]
pub(crate) struct ApiFlags {
    /// API versions and resources to serve or not: api/all=false,v1=true,apps/v1=true
    #[arg(long, value_name = "KEY=BOOL,...", value_parser = RuntimeConfig::parse)]
    runtime_config: Vec<RuntimeConfig>,
    #[command(flatten)]
    admission: admission_plugins::Flags,
    #[command(flatten)]
    pub(crate) serving: ServingFlags,
}

impl ApiFlags {
    /// Held against what there is to serve, and what of it this process follows: groups.
    pub(crate) fn runtime_config(&self, followed: &[&str]) -> anyhow::Result<RuntimeConfig> {
        let config = RuntimeConfig::merge(self.runtime_config.iter().cloned());
        apiserver::validate_runtime_config(&config, followed)
            .map_err(|err| anyhow::Error::new(err).context("--runtime-config"))?;
        Ok(config)
    }

    /// Held against the plugins that there are, and what each can be told.
    pub(crate) fn admission(&self, gates: &Gates) -> anyhow::Result<admission_plugins::Plugins> {
        self.admission.load(gates)
    }
}
