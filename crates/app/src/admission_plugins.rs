//! Which admission plugins run, and what they are told.

use std::io::{Error, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admission::plugins::{self, Needs};
use admission::{Configuration, Provisioner, Selection};
use anyhow::{Context as _, Result};
use apimachinery::ApiError;
use features::Gates;
use futures_util::future::BoxFuture;
use stdx::World;
use telemetry::Registry;

/// More is no configuration.
const BYTES_MAX: u64 = 1 << 20;

#[derive(clap::Args, Clone)]
#[group(id = "admission-plugins")]
pub(crate) struct Flags {
    /// Admission plugins to run beside those that run anyway; their order is always the same
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins not to run
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// What admission plugins are told: an AdmissionConfiguration
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
}

#[derive(Clone)]
pub(crate) struct Plugins {
    pub(crate) selection: Selection,
    pub(crate) configuration: Configuration,
}

/// Nobody writes while it is asked whether plugins can be made.
struct NotYet;

impl Provisioner for NotYet {
    fn make<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(std::future::ready(Err(ApiError::internal("the server is not there yet"))))
    }
}

impl Flags {
    /// What is asked for, if it can be.
    pub(crate) fn load(&self, gates: &Gates) -> Result<Plugins> {
        let named = |names: &[String]| -> Vec<String> {
            names.iter().filter(|it| !it.is_empty()).cloned().collect()
        };
        let (enable, disable) = (&self.enable_admission_plugins, &self.disable_admission_plugins);
        let selection = Selection::new(&named(enable), &named(disable))?;
        let file = self.admission_control_config_file.as_deref();
        let configuration = file.map(|it| Configuration::load(it, read)).transpose();
        let configuration = configuration.context("--admission-control-config-file")?;
        let configuration = configuration.unwrap_or_default();
        let provisioner: Arc<dyn Provisioner> = Arc::new(NotYet);
        let needs = Needs {
            world: &World::system(),
            gates,
            metrics: &Registry::default(),
            configuration: &configuration,
            provisioner: &provisioner,
            deciders: None,
        };
        plugins::all(&selection, &needs).context("--admission-control-config-file")?;
        Ok(Plugins { selection, configuration })
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    let n_bytes = file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    match u64::try_from(n_bytes).is_ok_and(|it| it <= BYTES_MAX) {
        true => Ok(text),
        false => Err(Error::other(format!("more than {BYTES_MAX} bytes"))),
    }
}
