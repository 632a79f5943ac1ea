//! What helps against a refusal, where that can be told from who refuses. Pure.

/// The plugin, and what to do about it. Texts of refusals have the particulars.
const HINTS: &[(&str, &str)] = &[
    (
        "LimitRanger",
        "set requests and limits within the LimitRanges of the namespace (`kubectl get limitranges`)",
    ),
    ("NamespaceExists", "create the namespace first, or name another by -n"),
    (
        "NamespaceLifecycle",
        "create the namespace first, wait until it is deleted, or name another by -n",
    ),
    ("NodeRestriction", "nodes may only write what is theirs; try it as somebody else by --as"),
    (
        "PodSecurity",
        "change what the refusal names in the pod, or the label pod-security.kubernetes.io/enforce of the namespace; `xebec policy check --pod-security LEVEL` shows what a level refuses",
    ),
    ("Priority", "name a PriorityClass that there is (`kubectl get priorityclasses`)"),
    (
        "ResourceQuota",
        "ask for less, free what is used, or raise the ResourceQuota that the refusal names",
    ),
    ("RuntimeClass", "name a RuntimeClass that there is (`kubectl get runtimeclasses`)"),
    (
        "ServiceAccount",
        "create the ServiceAccount, or name one that there is by spec.serviceAccountName",
    ),
    (
        "ValidatingAdmissionPolicy",
        "meet the expression that is marked, or exempt the object by the policy's matchConstraints or the binding's matchResources",
    ),
    (
        "ValidatingAdmissionWebhook",
        "what the webhook demands is its own; one that cannot be reached blocks unless its failurePolicy is Ignore",
    ),
    (
        "MutatingAdmissionWebhook",
        "what the webhook demands is its own; one that cannot be reached blocks unless its failurePolicy is Ignore",
    ),
];

pub(super) fn find(plugin: &str) -> Option<&'static str> {
    HINTS.iter().find(|it| it.0 == plugin).map(|it| it.1)
}
