//! A tree of cgroups that limits nothing.

use super::Node;
use crate::cgroups::Cgroups;
use crate::containers::{Resources, Usage};
use crate::{Error, Future};

impl Cgroups for Node {
    fn ensure(&self, name: &str, resources: Resources) -> Future<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move {
            self.enter(format!("cgroups.ensure {name}")).await?;
            let mut state = self.state();
            for (slash, _) in name.match_indices('/') {
                state.cgroups.entry(name[..slash].to_owned()).or_default();
            }
            state.cgroups.insert(name, resources);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Future<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move {
            self.enter(format!("cgroups.remove {name}")).await?;
            let below = format!("{name}/");
            self.state().cgroups.retain(|it, _| *it != name && !it.starts_with(&below));
            Ok(())
        })
    }

    fn children(&self, name: &str) -> Future<'_, Vec<String>> {
        let below = if name.is_empty() { String::new() } else { format!("{name}/") };
        let state = self.state();
        let names = state.cgroups.keys().filter_map(|it| it.strip_prefix(&below));
        let children = names.filter(|it| !it.contains('/')).map(str::to_owned).collect();
        Box::pin(std::future::ready(Ok(children)))
    }

    /// What all containers use, and nothing else.
    fn machine(&self) -> Future<'_, Usage> {
        let mut usage = Usage::default();
        for of_one in self.state().usages.values() {
            usage.cpu += of_one.cpu;
            usage.memory_working_set += of_one.memory_working_set;
            usage.memory_usage += of_one.memory_usage;
        }
        Box::pin(std::future::ready(Ok(usage)))
    }

    fn usage(&self, name: &str) -> Future<'_, Usage> {
        let usage = if self.state().cgroups.contains_key(name) {
            Ok(Usage::default())
        } else {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            Err(Error::node(format!("reading the usage of cgroup {name}"), missing))
        };
        Box::pin(std::future::ready(usage))
    }
}
