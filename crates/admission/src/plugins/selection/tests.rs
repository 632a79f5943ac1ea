//! Names in, plugins out.

use super::{Error, Selection};
use crate::plugins::ALL;

/// As upstream runs them (`AllOrderedPlugins` in pkg/kubeapiserver/options).
const ORDER: &str = "AlwaysAdmit NamespaceAutoProvision NamespaceLifecycle NamespaceExists \
    LimitPodHardAntiAffinityTopology LimitRanger ServiceAccount NodeRestriction \
    TaintNodesByCondition AlwaysPullImages ImagePolicyWebhook PodSecurity PodNodeSelector Priority \
    DefaultTolerationSeconds PodTolerationRestriction EventRateLimit ExtendedResourceToleration \
    DefaultStorageClass StorageObjectInUseProtection PodGroupProtection \
    OwnerReferencesPermissionEnforcement PersistentVolumeClaimResize RuntimeClass \
    CertificateApproval CertificateSigning ClusterTrustBundleAttest CertificateSubjectRestriction \
    DefaultIngressClass DenyServiceExternalIPs PodTopologyLabels PodGroupWorkloadExists \
    NodeDeclaredFeatureValidator JobValidation PodResizeValidator MutatingAdmissionPolicy \
    MutatingAdmissionWebhook ValidatingAdmissionPolicy ValidatingAdmissionWebhook ResourceQuota \
    AlwaysDeny";

#[test]
fn the_order_is_upstreams() {
    let expected: Vec<&str> = ORDER.split_whitespace().collect();
    assert_eq!(ALL.iter().map(|it| it.name).collect::<Vec<_>>(), expected);
    assert_eq!(ORDER.split_whitespace().count(), 41);
}

/// As upstream (`DefaultOffAdmissionPlugins` in the same place, the other way round).
const DEFAULTS: &str = "NamespaceLifecycle LimitRanger ServiceAccount TaintNodesByCondition \
    PodSecurity Priority DefaultTolerationSeconds DefaultStorageClass StorageObjectInUseProtection \
    PodGroupProtection PersistentVolumeClaimResize RuntimeClass CertificateApproval \
    CertificateSigning ClusterTrustBundleAttest CertificateSubjectRestriction DefaultIngressClass \
    PodTopologyLabels PodGroupWorkloadExists NodeDeclaredFeatureValidator JobValidation \
    PodResizeValidator MutatingAdmissionPolicy MutatingAdmissionWebhook ValidatingAdmissionPolicy \
    ValidatingAdmissionWebhook ResourceQuota";
/// See `ALL`.
const ALSO: &str = "NodeRestriction";

#[test]
fn these_run_where_nobody_says_anything_and_no_others() {
    let mut running = select(&[], &[]).unwrap();
    let place = running.iter().position(|it| *it == ALSO);
    running.remove(place.expect("it runs where nobody says so"));
    assert_eq!(running, DEFAULTS.split_whitespace().collect::<Vec<_>>());
    assert_eq!(DEFAULTS.split_whitespace().count(), 27);
}

fn select(enable: &[&str], disable: &[&str]) -> Result<Vec<&'static str>, Error> {
    let owned = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    Selection::new(&owned(enable), &owned(disable)).map(|it| it.names().collect())
}

#[test]
fn defaults_are_changed_by_name_whatever_the_order() {
    let defaults = select(&[], &[]).unwrap();
    assert!(defaults.contains(&"PodSecurity") && !defaults.contains(&"AlwaysDeny"));
    let more = select(&["AlwaysDeny", "AlwaysAdmit", "PodSecurity"], &[]).unwrap();
    assert_eq!(more.first(), Some(&"AlwaysAdmit"));
    assert_eq!(more.last(), Some(&"AlwaysDeny"));
    assert_eq!(more.len(), defaults.len() + 2);
    let less = select(&[], &["PodSecurity", "AlwaysDeny", "ImagePolicyWebhook"]).unwrap();
    assert!(!less.contains(&"PodSecurity"));
    assert_eq!(less.len(), defaults.len() - 1);
}

#[test]
fn names_that_are_none_are_refused_in_upstreams_words() {
    let refused =
        |enable: &[&str], disable: &[&str]| select(enable, disable).unwrap_err().to_string();
    assert_eq!(
        refused(&["Nothing"], &[]),
        "enable-admission-plugins plugin \"Nothing\" is unknown"
    );
    assert_eq!(
        refused(&[], &["podsecurity"]),
        "disable-admission-plugins plugin \"podsecurity\" is unknown"
    );
    assert_eq!(
        refused(&["Priority", "AlwaysDeny"], &["Priority", "AlwaysDeny"]),
        "[AlwaysDeny Priority] in enable-admission-plugins and disable-admission-plugins overlapped"
    );
}
