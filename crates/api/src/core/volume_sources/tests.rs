//! Sources in, as a volume of a pod and of the cluster; problems out.

use serde_json::{Value, json};

use crate::core::{PersistentVolume, Pod};
use crate::testing::check;

fn of_pod(source: Value, expected: &[&str]) {
    let mut volume = json!({"name": "v"});
    volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    let path = "spec.volumes[0]";
    let expected: Vec<String> = expected.iter().map(|it| it.replacen('@', path, 1)).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check::<Pod>(
        json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "a", "image": "i"}], "volumes": [volume]},
        }),
        &expected,
    );
}

fn of_cluster(source: Value, expected: &[&str]) {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
    spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    let expected: Vec<String> = expected.iter().map(|it| it.replacen('@', "spec", 1)).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check::<PersistentVolume>(json!({"metadata": {"name": "pv"}, "spec": spec}), &expected);
}

/// Where both have the same rule; `@` stands for the path of the volume.
fn of_both(source: Value, expected: &[&str]) {
    of_pod(source.clone(), expected);
    of_cluster(source, expected);
}

#[test]
fn a_host_path_leads_down_and_is_of_a_known_type() {
    of_both(json!({"hostPath": {"path": "/data", "type": ""}}), &[]);
    of_both(json!({"hostPath": {"path": "", "type": "x"}}), &["@.hostPath.path: Required value"]);
    of_both(
        json!({"hostPath": {"path": "/a/../b", "type": "Dir"}}),
        &[
            "@.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            "@.hostPath.type: Unsupported value: \"Dir\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
        ],
    );
}

#[test]
fn a_fibre_channel_disk_is_named_in_one_way() {
    of_both(json!({"fc": {"wwids": ["a"]}}), &[]);
    of_both(json!({"fc": {"targetWWNs": ["a"], "lun": 255}}), &[]);
    of_both(
        json!({"fc": {}}),
        &["@.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"],
    );
    of_both(
        json!({"fc": {"targetWWNs": ["a"], "wwids": ["b"]}}),
        &[
            "@.fc.targetWWNs: Invalid value: [\"a\"]: targetWWNs and wwids can not be specified simultaneously",
            "@.fc.lun: Required value: lun is required if targetWWNs is specified",
        ],
    );
    of_both(
        json!({"fc": {"targetWWNs": ["a"], "lun": 256}}),
        &["@.fc.lun: Invalid value: 256: must be between 0 and 255, inclusive"],
    );
}

#[test]
fn an_iscsi_name_has_one_of_three_forms() {
    let iscsi = |iqn: &str| json!({"iscsi": {"targetPortal": "p", "iqn": iqn, "lun": 0}});
    for iqn in [
        "iqn.2015-02.example.com:test",
        "iqn.2015-02.example.com:test:more",
        "eui.0123456789abcdef",
        &format!("naa.{}", "0".repeat(32)),
    ] {
        of_both(iscsi(iqn), &[]);
    }
    for iqn in ["iqn.2015-02.example.com", "iqn.15-02.a:b", "iqn.2015-02.a:b c", "eui.1", "naa.1"] {
        let expected = format!("@.iscsi.iqn: Invalid value: \"{iqn}\": must be valid format");
        of_both(iscsi(iqn), &[&expected]);
    }
    let foreign = "@.iscsi.iqn: Invalid value: \"other\": must be valid format";
    of_pod(iscsi("other"), &[&format!("{foreign} starting with iqn, eui, or naa")]);
    of_cluster(iscsi("other"), &[foreign]);
}

#[test]
fn an_iscsi_disk_says_how_to_log_in() {
    of_both(
        json!({"iscsi": {"targetPortal": "", "iqn": "", "lun": 256, "chapAuthSession": true}}),
        &[
            "@.iscsi.targetPortal: Required value",
            "@.iscsi.iqn: Required value",
            "@.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
            "@.iscsi.secretRef: Required value",
        ],
    );
    let portal = "p".repeat(64);
    let long = json!({"iscsi": {
        "targetPortal": portal, "iqn": "iqn.2015-02.a:b", "lun": 0,
        "initiatorName": "iqn.2015-02.a:c", "secretRef": {"name": ""},
    }});
    let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
    of_pod(long.clone(), &[&format!("@.name: Invalid value: \"v\": {why}")]);
    of_cluster(
        long,
        &[
            &format!("@.iscsi.targetportal: Invalid value: \"{portal}\": {why}"),
            "@.iscsi.secretRef.name: Required value",
        ],
    );
}

#[test]
fn disks_of_clouds_have_names_and_partitions() {
    of_both(
        json!({"gcePersistentDisk": {"pdName": "", "partition": 256}}),
        &[
            "@.persistentDisk.pdName: Required value",
            "@.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
        ],
    );
    of_both(
        json!({"awsElasticBlockStore": {"volumeID": "", "partition": 0}}),
        &["@.awsElasticBlockStore.volumeID: Required value"],
    );
    of_both(
        json!({"azureDisk": {"diskName": "", "diskURI": "x", "kind": "Managed", "cachingMode": "Much"}}),
        &[
            "@.azureDisk.diskName: Required value",
            "@.azureDisk.cachingMode: Unsupported value: \"Much\": supported values: \"None\", \"ReadOnly\", \"ReadWrite\"",
            "@.azureDisk.diskURI: Unsupported value: \"x\": supported values: \"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}\"",
        ],
    );
    for (source, field) in [
        (json!({"vsphereVolume": {"volumePath": ""}}), "vsphereVolume.volumePath"),
        (json!({"photonPersistentDisk": {"pdID": ""}}), "photonPersistentDisk.pdID"),
        (json!({"portworxVolume": {"volumeID": ""}}), "portworxVolume.volumeID"),
        (json!({"cinder": {"volumeID": ""}}), "cinder.volumeID"),
    ] {
        of_both(source, &[&format!("@.{field}: Required value")]);
    }
}

#[test]
fn servers_and_their_paths_are_named() {
    of_both(
        json!({"nfs": {"server": "", "path": "a"}}),
        &[
            "@.nfs.server: Required value",
            "@.nfs.path: Invalid value: \"a\": must be an absolute path",
        ],
    );
    of_both(
        json!({"glusterfs": {"endpoints": "", "path": ""}}),
        &["@.glusterfs.endpoints: Required value", "@.glusterfs.path: Required value"],
    );
    of_both(
        json!({"rbd": {"monitors": [], "image": ""}}),
        &["@.rbd.monitors: Required value", "@.rbd.image: Required value"],
    );
    of_both(json!({"cephfs": {"monitors": []}}), &["@.cephfs.monitors: Required value"]);
    of_both(
        json!({"flocker": {}}),
        &["@.flocker: Required value: one of datasetName and datasetUUID is required"],
    );
    of_both(
        json!({"flocker": {"datasetName": "a/b", "datasetUUID": "u"}}),
        &[
            "@.flocker: Invalid value: \"resource\": datasetName and datasetUUID can not be specified simultaneously",
            "@.flocker.datasetName: Invalid value: \"a/b\": must not contain '/'",
        ],
    );
    of_both(
        json!({"azureFile": {"secretName": "", "shareName": ""}}),
        &["@.azureFile.secretName: Required value", "@.azureFile.shareName: Required value"],
    );
    of_both(
        json!({"scaleIO": {"gateway": "", "system": "", "secretRef": {}}}),
        &[
            "@.scaleIO.gateway: Required value",
            "@.scaleIO.system: Required value",
            "@.scaleIO.volumeName: Required value",
        ],
    );
    of_both(json!({"storageos": {}}), &["@.storageos.volumeName: Required value"]);
}

#[test]
fn a_quobyte_registry_is_hosts_with_ports() {
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    of_both(json!({"quobyte": {"registry": "a:1,[::1]:2,:3", "volume": "v"}}), &[]);
    of_both(
        json!({"quobyte": {"registry": "a:1,b,c:2:3", "volume": ""}}),
        &[
            &format!("@.quobyte.registry: Invalid value: \"a:1,b,c:2:3\": {pairs}"),
            &format!("@.quobyte.registry: Invalid value: \"a:1,b,c:2:3\": {pairs}"),
            "@.quobyte.volume: Required value",
        ],
    );
    of_both(
        json!({"quobyte": {"registry": "", "volume": "v"}}),
        &[&format!("@.quobyte.registry: Required value: {pairs}")],
    );
}

#[test]
fn options_for_flex_drivers_are_not_ours() {
    of_both(
        json!({"flexVolume": {"driver": "", "options": {"a": "b", "X.K8s.io/c": "d"}}}),
        &[
            "@.flexVolume.driver: Required value",
            "@.flexVolume.options[X.K8s.io/c]: Invalid value: \"X.K8s.io/c\": kubernetes.io and k8s.io namespaces are reserved",
        ],
    );
}

#[test]
fn a_csi_volume_names_its_driver_and_secrets() {
    of_pod(
        json!({"csi": {"driver": "", "nodePublishSecretRef": {"name": ""}}}),
        &["@.csi.driver: Required value", "@.csi.nodePublishSecretRef.name: Required value"],
    );
    of_cluster(
        json!({"csi": {
            "driver": "a".repeat(64), "volumeHandle": "",
            "controllerExpandSecretRef": {"name": "s"}, "nodeStageSecretRef": {},
        }}),
        &[
            "@.csi.driver: Too long: may not be more than 63 bytes",
            "@.csi.volumeHandle: Required value",
            "@.csi.controllerExpandSecretRef.namespace: Required value",
        ],
    );
}

#[test]
fn a_volume_has_one_source() {
    of_both(
        json!({"nfs": {"server": "s", "path": "/"}, "gcePersistentDisk": {"pdName": "d"}, "cephfs": {"monitors": []}}),
        &[
            "@.nfs: Forbidden: may not specify more than 1 volume type",
            "@.cephFS: Forbidden: may not specify more than 1 volume type",
        ],
    );
    of_cluster(json!({}), &["@: Required value: must specify a volume type"]);
}

#[test]
fn an_empty_directory_has_no_negative_limit() {
    of_pod(
        json!({"emptyDir": {"sizeLimit": "-1"}}),
        &["@.emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
    );
    of_pod(
        json!({"gitRepo": {"repository": "", "directory": "/a"}}),
        &[
            "@.gitRepo.repository: Required value",
            "@.gitRepo.directory: Invalid value: \"/a\": must be a relative path",
        ],
    );
}

#[test]
fn a_claim_that_is_made_for_a_pod_is_a_claim() {
    of_pod(json!({"ephemeral": {}}), &["@.ephemeral.volumeClaimTemplate: Required value"]);
    of_pod(
        json!({"ephemeral": {"volumeClaimTemplate": {
            "metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"]},
        }}}),
        &[
            "@.ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
            "@.ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
        ],
    );
}
