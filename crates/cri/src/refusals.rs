//! What this runtime can do, and what is refused by name because it cannot: an older runtime skips
//! fields that it does not know, and would leave out in silence what was asked for. Pure.

use std::collections::BTreeMap;

use node_api::Error;
use node_api::containers::ContainerConfig;
use node_api::sandboxes::{Handler, SandboxConfig, Version};

use crate::messages::StatusResponse;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// What its status says of each handler; empty before CRI had that.
    pub(crate) handlers: BTreeMap<String, Handler>,
    pub(crate) supplemental_groups_policy: bool,
    /// It tells of containers by itself, now.
    pub(crate) tells_events: bool,
    image_mounts: bool,
}

/// The first versions that mount images (KEP-4639). No field says so.
const IMAGE_MOUNTS: &[(&str, (u32, u32))] = &[("containerd", (2, 1)), ("cri-o", (1, 31))];

impl Abilities {
    pub(crate) fn of(version: &Version) -> Self {
        let number = parse(&version.version);
        let since = IMAGE_MOUNTS.iter().find(|(name, _)| *name == version.name);
        let image_mounts = since.zip(number).is_some_and(|((_, since), it)| it >= *since);
        Self { image_mounts, ..Self::default() }
    }

    pub(crate) fn update(&mut self, status: &StatusResponse) {
        self.handlers = status
            .runtime_handlers
            .iter()
            .map(|it| {
                let features = it.features.clone().unwrap_or_default();
                let handler = Handler {
                    recursive_read_only_mounts: features.recursive_read_only_mounts,
                    user_namespaces: features.user_namespaces,
                };
                (it.name.clone(), handler)
            })
            .collect();
        let features = status.features.as_ref();
        self.supplemental_groups_policy = features.is_some_and(|it| it.supplemental_groups_policy);
    }

    fn handler(&self, name: &str) -> Handler {
        self.handlers.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn refuse_sandbox(&self, config: &SandboxConfig) -> Result<(), Error> {
        let can = self.handler(&config.runtime_handler);
        if config.user_namespace.is_some() && !can.user_namespaces {
            return Err(Error::unsupported("a user namespace of the pod's own"));
        }
        Ok(())
    }

    pub(crate) fn refuse_container(
        &self,
        config: &ContainerConfig,
        sandbox: &SandboxConfig,
    ) -> Result<(), Error> {
        let can = self.handler(&sandbox.runtime_handler);
        if !config.cdi_devices.is_empty() {
            return Err(Error::unsupported("a device of the Container Device Interface (CDI)"));
        }
        if config.stop_signal.is_some() {
            return Err(Error::unsupported("a stop signal other than the image's"));
        }
        if config.security.ignores_groups_of_image && !self.supplemental_groups_policy {
            return Err(Error::unsupported("a strict policy of supplemental groups"));
        }
        for mount in &config.mounts {
            if mount.recursive_read_only && !can.recursive_read_only_mounts {
                return Err(Error::unsupported("a recursively read-only mount"));
            }
            if mount.image.is_some() && !self.image_mounts {
                return Err(Error::unsupported("a mount of an image"));
            }
            if mount.id_mappings.is_some() && !can.user_namespaces {
                return Err(Error::unsupported("a mount with mapped ids"));
            }
        }
        Ok(())
    }
}

/// Major and minor of `v1.6.20~ds1` or `2.1.0`.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split(|it: char| !it.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use node_api::containers::{ImageMount, Mount};

    use super::*;

    fn version(name: &str, version: &str) -> Version {
        Version { name: name.into(), version: version.into(), api_version: "v1".into() }
    }

    #[test]
    fn old_runtimes_are_not_asked_for_what_they_would_skip() {
        let refused = |name: &str, number: &str, config: ContainerConfig| {
            let abilities = Abilities::of(&version(name, number));
            let refused = abilities.refuse_container(&config, &SandboxConfig::default());
            refused.err().map(|it| it.to_string())
        };
        let image = Some(ImageMount { image: Default::default(), sub_path: String::new() });
        let mounts = vec![Mount { image, ..Mount::default() }];
        let images = || ContainerConfig { mounts: mounts.clone(), ..Default::default() };
        for (name, number, is_refused) in [
            ("containerd", "1.6.20~ds1", true),
            ("containerd", "v2.0.4", true),
            ("containerd", "v2.1.0", false),
            ("cri-o", "1.31.0", false),
            ("cri-o", "1.30.9", true),
            ("another", "9.9.9", true),
            ("containerd", "unknown", true),
        ] {
            assert_eq!(refused(name, number, images()).is_some(), is_refused, "{name} {number}");
        }
        let cdi = ContainerConfig { cdi_devices: vec!["a.b/c=0".into()], ..Default::default() };
        assert!(refused("containerd", "v2.1.0", cdi).unwrap().contains("CDI"));
        let signal = ContainerConfig { stop_signal: Some("SIGHUP".into()), ..Default::default() };
        assert!(refused("containerd", "v2.1.0", signal).unwrap().contains("stop signal"));
    }
}
