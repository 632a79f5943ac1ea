//! Files that admission plugins are told things by, while they change: the new holds at once, the bad
//! not at all.

use std::path::Path;
use std::time::Duration;

use admission::{Configuration, Selection};
use serde_json::json;
use telemetry::logs::Lines;

use super::{MAPS, PODS, Setting, named};

/// The list of plugins: what pods may be, and as whom a webhook is asked.
fn write(folder: &Path, enforce: &str, kubeconfig: &str) {
    let kubeconfig = folder.join(kubeconfig);
    let list = format!(
        "apiVersion: apiserver.config.k8s.io/v1\n\
         kind: AdmissionConfiguration\n\
         plugins:\n\
         - name: PodSecurity\n\
        \x20 configuration:\n\
        \x20   apiVersion: pod-security.admission.config.k8s.io/v1\n\
        \x20   kind: PodSecurityConfiguration\n\
        \x20   defaults:\n\
        \x20     {enforce}\n\
         - name: ValidatingAdmissionWebhook\n\
        \x20 configuration:\n\
        \x20   apiVersion: apiserver.config.k8s.io/v1\n\
        \x20   kind: WebhookAdmissionConfiguration\n\
        \x20   kubeConfigFile: {}\n",
        kubeconfig.display()
    );
    replace(&folder.join("a.yaml"), &list);
}

/// Whole, as editors do it: nobody reads half of it.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("a file");
    std::fs::rename(new, path).expect("it is replaced");
}

fn identify(folder: &Path, name: &str, token: &str) {
    let text = json!({"users": [{"name": "*", "user": {"token": token}}]}).to_string();
    replace(&folder.join(name), &text);
}

impl Setting {
    async fn code_of_a_pod(&mut self) -> u16 {
        let pod = json!({
            "metadata": {"generateName": "p-"},
            "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]},
        });
        self.connection.call("POST", PODS, &pod).await.0
    }

    /// Until a change is seen.
    async fn until_a_pod_has(&mut self, code: u16) {
        for _ in 0..3_000 {
            if self.code_of_a_pod().await == code {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the change is not seen");
    }

    async fn until_shown(&mut self, token: &str) {
        for _ in 0..3_000 {
            if self.shown().await == format!("Bearer {token}") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the change is not seen");
    }

    /// As whom the webhook was asked about a config map.
    async fn shown(&mut self) -> String {
        self.webhook.take();
        self.create(MAPS, &json!({"metadata": {"generateName": "m-"}})).await;
        let (_, asked) = self.webhook.take_all().remove(0);
        asked["authorization"].as_str().unwrap_or_default().to_owned()
    }
}

/// The line about these files, after what was logged before.
async fn refusal(lines: &Lines, before: usize, path: &Path) -> String {
    for _ in 0..3_000 {
        let text = lines.text()[before..].to_owned();
        let line = text.lines().find(|it| {
            it.contains("cannot be used; what they said before holds")
                && it.contains(&*path.to_string_lossy())
        });
        if let Some(line) = line {
            return line.replace('\\', "");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing is said of {}", path.display());
}

#[tokio::test]
async fn what_files_say_holds_at_once_and_what_cannot_be_not_at_all() {
    let lines = crate::harness::logs();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    identify(path, "one", "first");
    identify(path, "two", "second");
    write(path, "enforce: privileged", "one");
    let mut on = Setting::start_told(|_| {
        let read = |path: &Path| std::fs::read_to_string(path);
        let told = Configuration::load(&path.join("a.yaml"), read).expect("a configuration");
        (Selection::default(), told)
    })
    .await;
    let hook = on.webhook.hook("allow");
    on.configure("validating", "v", &[hook]).await;
    assert_eq!(on.code_of_a_pod().await, 201);
    assert_eq!(on.shown().await, "Bearer first");
    write(path, "enforce: baseline", "two");
    on.until_a_pod_has(403).await;
    on.until_shown("second").await;
    // A file that another one names.
    identify(path, "two", "third");
    on.until_shown("third").await;

    for (enforce, kubeconfig, said) in [
        ("enforced: privileged", "two", "a.yaml, line 9, field \"enforced\""),
        ("enforce: everything", "two", "a.yaml"),
        ("enforce: privileged", "missing", "missing"),
        ("enforce: [", "two", "a.yaml, line "),
    ] {
        let before = lines.text().len();
        write(path, enforce, kubeconfig);
        let line = refusal(lines, before, path).await;
        assert!(line.contains(said), "{enforce}: {line}");
        assert_eq!(on.code_of_a_pod().await, 403, "{enforce}");
        assert_eq!(on.shown().await, "Bearer third", "{enforce}");
    }
    write(path, "enforce: privileged", "one");
    on.until_a_pod_has(201).await;
    on.until_shown("first").await;
    // A plugin that does not run does not begin to.
    let mut list = std::fs::read_to_string(path.join("a.yaml")).expect("a file");
    list.push_str(
        "- name: EventRateLimit\n  configuration:\n    \
         apiVersion: eventratelimit.admission.k8s.io/v1alpha1\n    kind: Configuration\n    \
         limits: [{type: Server, qps: 1, burst: 1}]\n",
    );
    replace(&path.join("a.yaml"), &list);
    for _ in 0..3_000 {
        if lines.text().contains("which plugins run is decided at the start") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(lines.text().contains("which plugins run is decided at the start"));
    on.create(MAPS, &named("last")).await;
}
