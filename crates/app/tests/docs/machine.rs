//! A machine for one page: its own network, its own `/var/lib`, `/run`, `/etc/systemd` and home,
//! and a shell that goes on from command to command.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The shell says this, with the exit code, when a command has ended.
const END: &str = "==end of the command==";

pub(crate) struct Machine {
    shell: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _directory: tempfile::TempDir,
}

pub(crate) struct Printed {
    /// Both streams, in order.
    pub(crate) text: String,
    pub(crate) is_ok: bool,
}

/// In namespaces of its own: folders that commands of the pages write to, and a way to the world
/// that leads nowhere.
const SET_UP: &str = r#"
set -e
mount --make-rprivate /
for folder in /var/lib /root /etc/systemd/system /opt /usr/local/bin; do
    mkdir -p "$folder" "$XEBEC_DOCS$folder"
    mount --bind "$XEBEC_DOCS$folder" "$folder"
done
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
ip link set lo up
ip link add eth0 type veth peer name cable
ip address add 192.0.2.1/24 dev eth0
ip link set eth0 up
ip link set cable up
ip route add default via 192.0.2.2
ln -s "$XEBEC_BINARY" /usr/local/bin/xebec
ln -s "$XEBEC_KUBECTL" /usr/local/bin/kubectl
cd /root
export HOME=/root USER=root PATH=/usr/local/bin:$PATH
unset KUBECONFIG XDG_DATA_HOME
set +e
"#;

impl Machine {
    /// `None`, loudly, where there is something missing.
    pub(crate) fn start() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: the pages' commands need root");
            return None;
        }
        let kubectl = on_path(std::env::var_os("XEBEC_TEST_KUBECTL"));
        let Some(kubectl) = kubectl else {
            eprintln!("SKIPPED: no kubectl for the pages' commands");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let mut shell = Command::new("unshare")
            .args(["--net", "--mount", "sh"])
            .env("XEBEC_DOCS", directory.path())
            .env("XEBEC_BINARY", env!("CARGO_BIN_EXE_xebec"))
            .env("XEBEC_KUBECTL", kubectl)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = shell.stdin.take().unwrap();
        let stdout = BufReader::new(shell.stdout.take().unwrap());
        let mut machine = Self { shell, stdin, stdout, _directory: directory };
        machine.stdin.write_all(b"exec 2>&1\n").unwrap();
        let made = machine.run(SET_UP.trim());
        assert!(made.is_ok, "the machine could not be made: {}", made.text);
        Some(machine)
    }

    pub(crate) fn run(&mut self, command: &str) -> Printed {
        write!(self.stdin, "{{ {command}\n}} </dev/null\necho; echo '{END}' $?\n").unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line).unwrap() == 0 {
                panic!("the shell ended at {command}:\n{}", lines.concat());
            }
            if let Some(code) = line.strip_prefix(END) {
                // The empty line before the end is ours.
                let text: String = lines.concat();
                let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
                return Printed { text, is_ok: code.trim() == "0" };
            }
            lines.push(line);
        }
    }
}

impl Drop for Machine {
    /// Nothing of the page stays, whether it cleaned up or not.
    fn drop(&mut self) {
        let purge = "for each in /var/lib/xebec*/cluster.json; do \
                     [ -e $each ] && xebec down --purge --data-dir ${each%/*}; done; exit\n";
        if self.stdin.write_all(purge.as_bytes()).is_ok() {
            let mut rest = String::new();
            let _ = self.stdout.read_to_string(&mut rest);
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// A program's whole path, or that of the kubectl on `PATH`.
fn on_path(given: Option<std::ffi::OsString>) -> Option<PathBuf> {
    let program = given.unwrap_or_else(|| "kubectl".into());
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|it| it.join(&program)).find(|it| it.is_file())
}
