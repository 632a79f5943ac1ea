//! Pods come and go: their links, addresses, and what the rules know of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use node_api::SandboxId;
use node_api::network::{Attachment, HostPort, Namespace};
use stdx::{Family, error_chain};

use crate::kernel::{self, PodNamespace};
use crate::kernel_state::{Change, KernelState, LinkKind, changes};
use crate::network::State;
use crate::node::PodRange;
use crate::records::{Record, Records};
use crate::{addresses, host_ports, links, table};

impl State {
    pub(crate) fn attach(
        &mut self,
        attachment: Attachment,
    ) -> Result<Vec<IpAddr>, node_api::Error> {
        let Attachment { pod, sandbox, namespace, host_ports } = attachment;
        let opening = |err| node_api::Error::node("open the sandbox's network namespace", err);
        let opened = namespace
            .open()
            .map_err(opening)?
            .ok_or_else(|| node_api::Error::Refused(format!("sandbox {sandbox} has ended")))?;
        let known = self.records.sandboxes.get(&sandbox).map(|it| it.kind);
        let kind = known.unwrap_or_else(|| self.backend.links());
        self.detach_predecessor(&sandbox, &kind.name(&sandbox, &pod))?;
        host_ports::validate(&sandbox, &host_ports, &self.records, &self.families())?;
        self.validate_other_clusters(&host_ports)?;
        let before = self.records.clone();
        let addresses = match before.sandboxes.get(&sandbox) {
            Some(record) => record.addresses.clone(),
            None => self.next_addresses()?,
        };
        let record = Record { pod, addresses: addresses.clone(), host_ports, kind };
        let old = self.records.sandboxes.insert(sandbox.clone(), record.clone());
        let mut connect = || {
            if self.records != before {
                self.directory.save(&self.records)?;
            }
            if let Some(gate) = &self.gate {
                gate.attach(&sandbox, &record.pod, &record.addresses)?;
            }
            self.connect(&sandbox, &record, opened.as_fd())?;
            self.change_pod(old.as_ref(), Some(&record))?;
            // Of two clusters that do this at once, one at least sees the other.
            self.validate_other_clusters(&record.host_ports)
        };
        if let Err(err) = connect() {
            self.undo(&record.link(&sandbox), before, old.is_none());
            if old.is_none() {
                self.leave_gate(&sandbox, &record);
            }
            return Err(err);
        }
        self.namespaces.insert(sandbox, namespace);
        Ok(addresses)
    }

    /// A link that is named after its pod goes to the pod's latest sandbox: an earlier one is ending,
    /// and may not have been told of yet.
    fn detach_predecessor(
        &mut self,
        sandbox: &SandboxId,
        link: &str,
    ) -> Result<(), node_api::Error> {
        let has_it =
            |(it, record): &(&SandboxId, &Record)| *it != sandbox && record.link(it) == link;
        let Some((it, _)) = self.records.sandboxes.iter().find(has_it) else { return Ok(()) };
        let predecessor = it.clone();
        self.disconnect(&predecessor)?;
        self.directory.save(&self.records)
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        self.ranges.iter().map(PodRange::family).collect()
    }

    /// Makes the pod's link and all that is on it. What is right already stays; nothing else is
    /// looked at.
    fn connect(
        &mut self,
        sandbox: &SandboxId,
        record: &Record,
        namespace: BorrowedFd<'_>,
    ) -> Result<(), kernel::Error> {
        let link = record.link(sandbox);
        let desired = self.desired_of(sandbox, record).of_link(&link);
        let LinkKind::Pod { end: Some(end) } = &desired.links[&link].kind else { return Ok(()) };
        let mut pod = PodNamespace::open(namespace)?;
        let actual = self.kernel.observe_pod(&link, end, &mut pod)?;
        if actual.links.contains_key(&link) {
            pod.set_up(end)?;
            self.kernel.harden_link(&link)?;
        }
        self.kernel.apply(&changes(&actual, &desired), Some(&mut pod))
    }

    /// What the back end wants if there is this pod alone.
    fn desired_of(&self, sandbox: &SandboxId, record: &Record) -> KernelState {
        let pods = BTreeMap::from([(sandbox.clone(), record.clone())]);
        self.backend.desired(&self.this_node(pods), &[])
    }

    fn validate_other_clusters(&mut self, host_ports: &[HostPort]) -> Result<(), node_api::Error> {
        match self.kernel.host_port_of_others(host_ports)? {
            None => Ok(()),
            Some((port, cluster)) => Err(host_ports::taken(port, format!("cluster {cluster}"))),
        }
    }

    /// One of each range.
    fn next_addresses(&mut self) -> Result<Vec<IpAddr>, node_api::Error> {
        let records = self.records.sandboxes.values();
        let used: BTreeSet<_> = records.flat_map(|it| it.addresses.iter().copied()).collect();
        let next = |range: &PodRange| {
            let last = self.records.last(range.family());
            addresses::next_free(range.node, last, &used).ok_or_else(|| {
                node_api::Error::AddressesExhausted { range: range.node.to_string() }
            })
        };
        let addresses: Vec<_> = self.ranges.iter().map(next).collect::<Result<_, _>>()?;
        addresses.iter().for_each(|it| self.records.set_last(*it));
        Ok(addresses)
    }

    /// After a failure: nothing of a new sandbox stays, and one that was there is as it was.
    fn undo(&mut self, link: &str, before: Records, was_new: bool) {
        // The address that failed is not the next one to be tried.
        let last = std::mem::take(&mut self.records.last);
        self.records = Records { last, ..before };
        let mut errors = Vec::new();
        if was_new {
            errors.extend(self.delete_link(link).err().map(node_api::Error::from));
        }
        errors.extend(self.converge_tables().err());
        errors.extend(self.directory.save(&self.records).err());
        for err in errors {
            tracing::warn!(link, error = error_chain(&err), "could not undo a failed attachment");
        }
    }

    /// What the gate holds of a pod that is gone harms nobody.
    fn leave_gate(&self, sandbox: &SandboxId, record: &Record) {
        if let Some(Err(err)) = self.gate.as_ref().map(|it| it.detach(sandbox, &record.pod)) {
            let error = error_chain(&err);
            tracing::warn!(pod = %record.pod, error, "could not forget the policies of a pod");
        }
    }

    fn delete_link(&mut self, link: &str) -> Result<(), kernel::Error> {
        self.kernel.apply([&Change::DeleteLink { link: link.to_owned() }], None)
    }

    /// Returns what removes the link.
    pub(crate) fn begin_detach(
        &mut self,
        sandbox: &SandboxId,
    ) -> Result<impl FnOnce() -> Result<(), kernel::Error> + use<>, kernel::Error> {
        let remover = self.kernel.link_remover(&self.link_of(sandbox))?;
        self.leaving.insert(sandbox.clone());
        Ok(remover)
    }

    /// A sandbox that nobody knows has no link but perhaps one of its own name: one that is named
    /// after a pod is that of the pod's latest sandbox.
    fn link_of(&self, sandbox: &SandboxId) -> String {
        match self.records.sandboxes.get(sandbox) {
            Some(record) => record.link(sandbox),
            None => links::of_sandbox(sandbox),
        }
    }

    pub(crate) fn end_detach(
        &mut self,
        sandbox: &SandboxId,
        removed: Result<(), kernel::Error>,
    ) -> Result<(), node_api::Error> {
        let disconnected = removed.map_err(node_api::Error::from);
        let disconnected = disconnected.and_then(|()| self.disconnect(sandbox));
        self.leaving.remove(sandbox);
        if disconnected? { self.directory.save(&self.records) } else { Ok(()) }
    }

    pub(crate) fn keep_only(
        &mut self,
        sandboxes: BTreeMap<SandboxId, Arc<dyn Namespace>>,
    ) -> Result<(), node_api::Error> {
        let known = self.records.sandboxes.keys();
        let strangers: Vec<_> = known.filter(|it| !sandboxes.contains_key(*it)).cloned().collect();
        self.namespaces = sandboxes;
        let result = strangers.iter().try_for_each(|it| self.disconnect(it).map(drop));
        if !strangers.is_empty() {
            self.directory.save(&self.records)?;
        }
        result?;
        // Links that no record knows go, too, and those that are gone come back.
        self.converge()
    }

    /// Detaches without writing it down. The namespace and the link may be gone. Says whether the
    /// sandbox was known.
    fn disconnect(&mut self, sandbox: &SandboxId) -> Result<bool, node_api::Error> {
        self.delete_link(&self.link_of(sandbox))?;
        let Some(record) = self.records.sandboxes.remove(sandbox) else { return Ok(false) };
        if let Err(err) = self.change_pod(Some(&record), None) {
            // The address stays taken until somebody tries again.
            self.records.sandboxes.insert(sandbox.clone(), record);
            return Err(err);
        }
        self.leave_gate(sandbox, &record);
        self.namespaces.remove(sandbox);
        self.of_pods.remove(sandbox);
        self.status.send_if_modified(|it| it.losses.remove(sandbox).is_some());
        Ok(true)
    }

    /// Makes these changes of one pod. One whose sandbox ends just now needs none that take its
    /// namespace, and so none at all.
    pub(crate) fn change_link(
        &mut self,
        sandbox: &SandboxId,
        changes: &[Change],
    ) -> Result<(), kernel::Error> {
        let is_in_pod = |it: &Change| matches!(it, Change::Connect { .. } | Change::SetMtu { .. });
        if !changes.iter().any(is_in_pod) {
            return self.kernel.apply(changes, None);
        }
        let namespace = self.namespaces.get(sandbox).map(|it| it.open()).transpose();
        match namespace.map_err(kernel::Error::OpenNamespace)?.flatten() {
            Some(namespace) => {
                let mut pod = PodNamespace::open(namespace.as_fd())?;
                self.kernel.apply(changes, Some(&mut pod))
            }
            None => Ok(()),
        }
    }

    /// Changes what the rules know of one pod. If that is refused, somebody else changed the table:
    /// then all of it is put right.
    fn change_pod(
        &mut self,
        before: Option<&Record>,
        after: Option<&Record>,
    ) -> Result<(), node_api::Error> {
        let in_table = |it: Family| (it, table::pod_changes(before, after, it));
        let changes: Vec<_> = self.families().into_iter().map(in_table).collect();
        if changes.iter().all(|(_, changes)| changes.is_empty()) {
            return Ok(());
        }
        let mut of_tables = changes.iter();
        if of_tables.try_for_each(|(it, changes)| self.kernel.apply_to_table(*it, changes)).is_err()
        {
            self.converge()?;
        }
        for pod in before.into_iter().chain(after) {
            self.kernel.forget_flows(pod)?;
        }
        Ok(())
    }
}
