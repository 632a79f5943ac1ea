//! Where programs are: at the root of all cgroups, for sockets in the node's own network namespace,
//! and at the cgroup of the cluster's pods, for all others there.
//!
//! They are found again by their name, which says whose they are: nothing has to be written down.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use linux::bpf::{self, Hook, Program, ProgramDescription};
use linux::cgroups::Hierarchies;
use node_api::ClusterId;
use rustix::io::Errno;

use super::SocketError;
use super::maps::KernelMaps;
use super::program::{Scope, code};

const HOOKS: [Hook; 8] = [
    Hook::Connect4,
    Hook::Connect6,
    Hook::SendMessage4,
    Hook::SendMessage6,
    Hook::ReceiveMessage4,
    Hook::ReceiveMessage6,
    Hook::PeerName4,
    Hook::PeerName6,
];
/// The pods' cgroup may be removed and made again meanwhile, but not for ever.
const ATTEMPTS: usize = 5;
/// How deep below the root the pods' cgroup may be.
const DEPTH_MAX: usize = 2;

#[derive(Debug)]
pub(super) struct Attachments {
    root: PathBuf,
    /// `None`: not at a place where programs are looked for.
    pods: Option<PathBuf>,
    /// Of all programs of this cluster on this node.
    name: String,
    /// The node's network namespace.
    node: u64,
}

/// Eight digits are the cluster's, seven the network namespace's: its number counts namespaces of
/// this machine, so the same digits come again after 268 million of them.
fn name(cluster: ClusterId, node: u64) -> String {
    format!("{cluster}{:07x}", node & 0xfff_ffff)
}

impl Attachments {
    /// For the network namespace of the calling thread; `None` if cgroups of version 2 are not
    /// mounted.
    pub(super) fn find(cluster: ClusterId) -> Result<Option<Self>, SocketError> {
        let hierarchies =
            Hierarchies::detect().map_err(|source| SocketError::FindCgroups { source })?;
        let Some(unified) = hierarchies.unified() else { return Ok(None) };
        let node = linux::network_namespace::cookie().map_err(|source| {
            match source.source.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOPROTOOPT) => {
                    SocketError::Missing { what: "Linux 5.14 or newer", source: None }
                }
                _ => SocketError::FindNamespace { source },
            }
        })?;
        let root = unified.mount.clone();
        let pods = below(&root, &cluster.cgroup());
        Ok(Some(Self { root, pods, name: name(cluster, node), node }))
    }

    pub(super) fn set_pods(&mut self, name: &str) {
        self.pods = below(&self.root, name);
        if self.pods.is_none() {
            tracing::warn!(cgroup = name, "Services are not served at the sockets of pods there");
        }
    }

    /// What the kernel lacks is an error that names it.
    pub(super) fn check(&self) -> Result<(), SocketError> {
        let root = open(&self.root)?;
        for hook in HOOKS {
            if let Err(err) = bpf::attached(&root, hook) {
                return Err(missing(hook, err));
            }
        }
        Ok(())
    }

    /// Any program of the process before.
    pub(super) fn any(&self) -> Result<Option<Program>, SocketError> {
        let root = open(&self.root)?;
        Ok(self.ours(&root, Hook::Connect4)?.into_iter().next().map(|it| it.0))
    }

    fn ours(
        &self,
        cgroup: &File,
        hook: Hook,
    ) -> Result<Vec<(Program, ProgramDescription)>, SocketError> {
        let mut found = Vec::new();
        for id in bpf::attached(cgroup, hook)? {
            let Some(program) = Program::by_id(id)? else { continue };
            let description = program.describe()?;
            if description.name == self.name {
                found.push((program, description));
            }
        }
        Ok(found)
    }

    /// One program for each hook at either cgroup, with these maps. What is right stays.
    pub(super) fn converge(&self, maps: &KernelMaps) -> Result<(), SocketError> {
        let root = open(&self.root)?;
        HOOKS.iter().try_for_each(|hook| self.converge_at(&root, Scope::Node, *hook, maps))?;
        let Some(pods) = &self.pods else { return Ok(()) };
        let mut attempt = 1;
        loop {
            match self.converge_pods(pods, maps) {
                Err(err) if attempt < ATTEMPTS && is_gone(&err) => attempt += 1,
                converged => return converged,
            }
        }
    }

    fn converge_pods(&self, path: &Path, maps: &KernelMaps) -> Result<(), SocketError> {
        std::fs::create_dir_all(path)
            .map_err(|source| SocketError::OpenCgroup { path: path.to_owned(), source })?;
        let pods = open(path)?;
        HOOKS.iter().try_for_each(|hook| self.converge_at(&pods, Scope::Pods, *hook, maps))
    }

    fn converge_at(
        &self,
        cgroup: &File,
        scope: Scope,
        hook: Hook,
        maps: &KernelMaps,
    ) -> Result<(), SocketError> {
        let code = code(hook, scope, self.node, maps.descriptors())?;
        let program = Program::load(&self.name, hook, &code)?;
        let wanted = program.describe()?;
        let mut ours = self.ours(cgroup, hook)?;
        let is_right =
            |it: &(Program, ProgramDescription)| it.1.tag == wanted.tag && it.1.maps == wanted.maps;
        if let Some(position) = ours.iter().position(is_right) {
            ours.swap_remove(position);
        } else {
            let replaced = ours.pop().map(|it| it.0);
            bpf::attach(cgroup, hook, &program, replaced.as_ref())?;
        }
        for (other, _) in ours {
            bpf::detach(cgroup, hook, &other)?;
        }
        Ok(())
    }

    /// Detaches all, wherever the pods' cgroup was. Their maps go with them.
    pub(super) fn purge(&self) -> Result<(), SocketError> {
        self.detach_all(&self.root)?;
        for path in self.places()? {
            let n_detached = match self.detach_all(&path) {
                Err(err) if is_gone(&err) => continue,
                detached => detached?,
            };
            if n_detached > 0 {
                // Ours if nobody is in it; else it is in use, and who made it before us removes it.
                let _ = std::fs::remove_dir(&path);
            }
        }
        Ok(())
    }

    /// Where pods' cgroups may be.
    fn places(&self) -> Result<Vec<PathBuf>, SocketError> {
        let mut found = vec![self.root.clone()];
        let mut start = 0;
        for _ in 0..DEPTH_MAX {
            let end = found.len();
            for position in start..end {
                let directories = directories(&found[position])?;
                found.extend(directories);
            }
            start = end;
        }
        found.remove(0);
        Ok(found)
    }

    /// How many there were.
    fn detach_all(&self, path: &Path) -> Result<usize, SocketError> {
        let cgroup = open(path)?;
        let mut n_detached = 0;
        for hook in HOOKS {
            let ours = match self.ours(&cgroup, hook) {
                // Where the mode cannot be, nothing of it is.
                Err(SocketError::Kernel { source }) if lacking(hook, &source).is_some() => continue,
                ours => ours?,
            };
            for (program, _) in ours {
                bpf::detach(&cgroup, hook, &program)?;
                n_detached += 1;
            }
        }
        Ok(n_detached)
    }
}

/// `None`: the root itself, where everybody is, or deeper than programs are looked for.
fn below(root: &Path, name: &str) -> Option<PathBuf> {
    let components: Vec<_> = name.split('/').filter(|it| !it.is_empty()).collect();
    let is_plain = !components.iter().any(|it| matches!(*it, "." | ".."));
    let is_found = is_plain && (1..=DEPTH_MAX).contains(&components.len());
    is_found.then(|| root.join(components.join("/")))
}

fn directories(path: &Path) -> Result<Vec<PathBuf>, SocketError> {
    let entries = match std::fs::read_dir(path) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => {
            entries.map_err(|source| SocketError::OpenCgroup { path: path.to_owned(), source })?
        }
    };
    let is_directory = |it: &std::fs::DirEntry| it.file_type().is_ok_and(|it| it.is_dir());
    Ok(entries.flatten().filter(is_directory).map(|it| it.path()).collect())
}

fn open(path: &Path) -> Result<File, SocketError> {
    File::open(path).map_err(|source| SocketError::OpenCgroup { path: path.to_owned(), source })
}

/// A cgroup was removed before or after it was opened.
fn is_gone(err: &SocketError) -> bool {
    match err {
        SocketError::Kernel { source } => {
            [Errno::NOENT, Errno::NODEV, Errno::BADF].iter().any(|it| source.is(*it))
        }
        SocketError::OpenCgroup { source, .. } => source.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

fn missing(hook: Hook, source: bpf::Error) -> SocketError {
    match lacking(hook, &source) {
        Some(what) => SocketError::Missing { what, source: Some(source) },
        None => SocketError::Kernel { source },
    }
}

fn lacking(hook: Hook, err: &bpf::Error) -> Option<&'static str> {
    match (Errno::from_raw_os_error(err.errno()?), hook) {
        (Errno::NOSYS, _) => Some("bpf(2) in the kernel (CONFIG_BPF_SYSCALL)"),
        (Errno::INVAL, Hook::PeerName4 | Hook::PeerName6) => Some("Linux 5.8 or newer"),
        (Errno::INVAL, _) => Some("programs at cgroups in the kernel (CONFIG_CGROUP_BPF)"),
        (Errno::PERM | Errno::ACCESS, _) => Some("the capabilities CAP_BPF and CAP_NET_ADMIN"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_programs_they_are() {
        let cluster = "00c0ffee".parse().unwrap();
        assert_eq!(name(cluster, 1), "00c0ffee0000001");
        assert_eq!(name(cluster, u64::MAX).len(), bpf::NAME_MAX);
    }

    #[test]
    fn pods_are_served_at_a_cgroup_that_is_found_again() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(below(Path::new("/c"), name), expected.map(PathBuf::from), "{name}");
        };
        check("xebec-00c0ffee", Some("/c/xebec-00c0ffee"));
        check("/a/b/", Some("/c/a/b"));
        check("/", None);
        check("a/b/c", None);
        check("../a", None);
    }

    #[test]
    fn what_the_kernel_lacks_has_a_name() {
        let check = |hook, errno: Errno, expected: &str| {
            let source = bpf::Error::Call { doing: "look".to_owned(), source: errno.into() };
            assert_eq!(missing(hook, source).to_string(), expected);
        };
        let rest = ": choose the mode nftables, or add it";
        check(
            Hook::Connect4,
            Errno::NOSYS,
            &format!("mode ebpf needs bpf(2) in the kernel (CONFIG_BPF_SYSCALL){rest}"),
        );
        check(
            Hook::Connect4,
            Errno::INVAL,
            &format!("mode ebpf needs programs at cgroups in the kernel (CONFIG_CGROUP_BPF){rest}"),
        );
        check(Hook::PeerName4, Errno::INVAL, &format!("mode ebpf needs Linux 5.8 or newer{rest}"));
        check(Hook::Connect4, Errno::MFILE, "serve Services at sockets");
    }
}
