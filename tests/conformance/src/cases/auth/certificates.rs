//! CertificateSigningRequests: objects, and the way from a request to a certificate.

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::client::Patch;
use crate::expect::{count, name, same, shows};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[case!(
    "[sig-auth] Certificates API [Privileged:ClusterAdmin] should support CSR API operations [Conformance]",
    requests
)];

const GROUP: &str = "certificates.k8s.io/v1";

fn operations(request: &str, signer: &str) -> Operations {
    Operations {
        group_version: GROUP,
        resource: "certificatesigningrequests",
        kind: "CertificateSigningRequest",
        is_namespaced: false,
        object: json!({ "spec": {
            "request": BASE64_STANDARD.encode(request),
            "signerName": signer,
            "expirationSeconds": 3_600,
            "usages": ["digital signature", "key encipherment", "server auth"],
        } }),
        change: json!({}),
        status: None,
        names: None,
    }
}

fn condition(kind: &str) -> Value {
    json!({ "type": kind, "status": "True", "reason": "Conformance", "message": "of a test" })
}

async fn requests(scope: &Scope) -> Result<()> {
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec!["conformance.example.com".to_owned()])?;
    let request = params.serialize_request(&key)?.pem()?;
    let certificate = params.self_signed(&key)?.pem();
    let signer = format!("example.com/{}", scope.suffix);
    operations(&request, &signer).check(scope).await?;

    let requests = scope.all(GROUP, "certificatesigningrequests");
    let mut object = operations(&request, &signer).object;
    object["metadata"] = json!({ "name": scope.unique("signed") });
    let made = requests.create(&object).await?;
    let name = name(&made)?;
    let of_signer = [("fieldSelector", &*format!("spec.signerName={signer}"))];
    count("requests to the signer", &requests.list(&of_signer).await?, 1)?;

    let whole = json!({ "kind": "CertificateSigningRequest", "apiVersion": GROUP });
    for part in ["approval", "status"] {
        let read = requests.get_part(name, part).await?;
        shows(&read, &whole)?;
        same("uid", &read["metadata"]["uid"], &made["metadata"]["uid"])?;
    }
    let patch = json!({
        "metadata": { "annotations": { "approval": "patched" } },
        "status": { "conditions": [condition("Considered")] },
    });
    shows(&requests.patch_part(name, "approval", Patch::Merge, &patch).await?, &patch)?;
    let approved =
        requests.change(name, Some("approval"), |it| push(it, condition("Approved"))).await?;
    let both = json!([condition("Considered"), condition("Approved")]);
    shows(&approved, &json!({ "status": { "conditions": both } }))?;

    let patch = json!({
        "metadata": { "annotations": { "status": "patched" } },
        "status": { "certificate": BASE64_STANDARD.encode(&certificate) },
    });
    shows(&requests.patch_part(name, "status", Patch::Merge, &patch).await?, &patch)?;
    let replaced =
        requests.change(name, Some("status"), |it| push(it, condition("Replaced"))).await?;
    let all = json!([condition("Considered"), condition("Approved"), condition("Replaced")]);
    shows(&replaced, &json!({ "status": { "conditions": all } }))?;
    requests.delete_all(&of_signer).await?;
    count("requests, after they were deleted", &requests.list(&of_signer).await?, 0)
}

fn push(object: &mut Value, condition: Value) {
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        conditions.push(condition);
    }
}
