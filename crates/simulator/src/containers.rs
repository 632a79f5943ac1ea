//! What runs on the nodes in truth, whatever the API shows: containers of a silent node run on. So
//! it is known when two pods of one name ran at the same time, which must never be.

use std::collections::BTreeMap;

use apimachinery::ObjectKey;

#[derive(Debug, Default)]
pub(crate) struct Containers {
    /// The node that runs them, by the pod's uid.
    running: BTreeMap<ObjectKey, BTreeMap<String, String>>,
    /// The names that two pods had at once, and where those ran.
    doubles: Vec<String>,
}

impl Containers {
    pub(crate) fn start(&mut self, key: &ObjectKey, uid: &str, node: &str) {
        let pods = self.running.entry(key.clone()).or_default();
        if pods.insert(uid.to_owned(), node.to_owned()).is_some() {
            return;
        }
        let others = pods.iter().filter(|it| it.0 != uid);
        self.doubles
            .extend(others.map(|(_, other)| format!("{key} runs on {other} and on {node}")));
    }

    pub(crate) fn stop(&mut self, key: &ObjectKey, uid: &str) {
        self.stop_if(key, |it, _| it == uid);
    }

    /// Those of this name whose uid and node say so.
    pub(crate) fn stop_if(&mut self, key: &ObjectKey, stops: impl Fn(&str, &str) -> bool) {
        let Some(pods) = self.running.get_mut(key) else { return };
        pods.retain(|uid, node| !stops(uid, node));
        if pods.is_empty() {
            self.running.remove(key);
        }
    }

    /// A node that comes back stops what is no more to run there.
    pub(crate) fn keep(&mut self, node: &str, stays: impl Fn(&ObjectKey, &str) -> bool) {
        self.running.retain(|key, pods| {
            pods.retain(|uid, at| at != node || stays(key, uid));
            !pods.is_empty()
        });
    }

    pub(crate) fn doubles(&self) -> &[String] {
        &self.doubles
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::ObjectKey;

    use super::Containers;

    #[test]
    fn one_name_runs_once() {
        let key = ObjectKey::new("default", "db-0");
        let mut containers = Containers::default();
        containers.start(&key, "u1", "sim-0");
        containers.start(&key, "u1", "sim-0");
        containers.stop(&key, "u1");
        containers.start(&key, "u2", "sim-1");
        assert!(containers.doubles().is_empty());
        // Its node is silent: nobody stopped it.
        containers.stop_if(&key, |_, node| node != "sim-1");
        containers.start(&key, "u3", "sim-0");
        assert_eq!(containers.doubles(), ["default/db-0 runs on sim-1 and on sim-0"]);
    }

    #[test]
    fn a_node_that_comes_back_stops_what_is_gone() {
        let key = ObjectKey::new("default", "db-0");
        let mut containers = Containers::default();
        containers.start(&key, "u1", "sim-0");
        containers.keep("sim-0", |_, uid| uid != "u1");
        containers.start(&key, "u2", "sim-1");
        assert!(containers.doubles().is_empty());
    }
}
