//! Certificates that a node asks for: for itself under its own name, and for the pods that run on
//! it.

use api::certificates::certificate_signing_request::asked;
use api::certificates::{CertificateSigningRequest, PodCertificateRequest};
use api::core::pod::mirror;
use api::core::{Node, Pod, ServiceAccount};
use apimachinery::{ApiError, Reason};

use super::{Verdict, find, is_bound, unexpected_operation, unexpected_type};
use crate::attributes::Operation;
use crate::context::Context;

/// Whose certificates make somebody a node.
const SIGNERS: &[&str] =
    &["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

pub(super) fn validate_request(node: &str, context: &Context<'_>) -> Verdict {
    if context.request.operation != Operation::Create {
        return Ok(());
    }
    let request = context.object_as::<CertificateSigningRequest>();
    let request = request.ok_or_else(|| unexpected_type(context))?;
    if !SIGNERS.contains(&request.spec.signer_name.as_str()) {
        return Ok(());
    }
    let asked = asked(&request.spec.request);
    let asked = asked.map_err(|why| context.forbidden(&format!("unable to parse csr: {why}")))?;
    if asked.common_name != format!("system:node:{node}") {
        let why = format!("can only create a node CSR with CN=system:node:{node}");
        return Err(context.forbidden(&why));
    }
    Ok(())
}

/// What this server may not know yet can be tried again, and is no refusal.
fn try_again(why: &str) -> ApiError {
    ApiError::new(Reason::InternalError, format!("Internal error occurred: {why}"))
}

fn uid(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

pub(super) fn validate_pod_request(node: &str, context: &Context<'_>) -> Verdict {
    if context.request.operation != Operation::Create {
        return Err(unexpected_operation(context));
    }
    let subresource = context.request.subresource;
    if !subresource.is_empty() {
        return Err(context.forbidden(&format!("unexpected subresource {subresource}")));
    }
    let request = context.object_as::<PodCertificateRequest>();
    let request = request.ok_or_else(|| unexpected_type(context))?;
    validate_node(node, request, context)?;
    validate_pod(node, request, context)
}

fn validate_node(node: &str, request: &PodCertificateRequest, context: &Context<'_>) -> Verdict {
    let (spec, namespace) = (&request.spec, context.request.namespace);
    let (name, pod) = (&spec.node_name, &spec.pod_name);
    if name != node {
        return Err(context.forbidden(&format!(
            "PodCertificateRequest.Spec.NodeName={name:?}, which is not the requesting node {node:?}"
        )));
    }
    let missing = |err: ApiError| {
        let err = err.message().to_owned();
        try_again(&format!(
            "while retrieving node {name:?} named in the PodCertificateRequest: {err}"
        ))
    };
    let stored = find::<Node>(context, "", name).map_err(missing)?;
    let (is, said) = (uid(&stored.metadata), &spec.node_uid);
    if is != said {
        return Err(try_again(&format!(
            "PodCertificateRequest for pod \"{namespace}/{pod}\" names node UID {said:?}, inconsistent with the running node ({is:?})"
        )));
    }
    Ok(())
}

fn validate_pod(node: &str, request: &PodCertificateRequest, context: &Context<'_>) -> Verdict {
    let (spec, namespace) = (&request.spec, context.request.namespace);
    let name = format!("\"{namespace}/{}\"", spec.pod_name);
    let missing = |what: &str, name: &str, err: &ApiError| {
        let err = err.message();
        try_again(&format!(
            "while retrieving {what} {name} named in the PodCertificateRequest: {err}"
        ))
    };
    let pod = find::<Pod>(context, namespace, &spec.pod_name);
    let pod = pod.map_err(|err| missing("pod", &name, &err))?;
    let (is, said) = (uid(&pod.metadata), &spec.pod_uid);
    if is != said {
        return Err(try_again(&format!(
            "PodCertificateRequest for pod {name} contains pod UID ({said:?}) which differs from running pod {is:?}"
        )));
    }
    if !is_bound(&pod, node) {
        return Err(context.forbidden(&format!(
            "pod {name} is not running on node {node:?} named in the PodCertificateRequest"
        )));
    }
    let annotations = pod.metadata.annotations.as_ref();
    if annotations.is_some_and(|it| it.contains_key(mirror::ANNOTATION)) {
        return Err(context.forbidden(&format!("pod {name} is a mirror pod")));
    }
    let own = pod.spec.as_ref().and_then(|it| it.service_account_name.as_deref());
    let (own, said) = (own.unwrap_or_default(), &spec.service_account_name);
    if own != said {
        return Err(context.forbidden(&format!(
            "PodCertificateRequest for pod {name} contains serviceAccountName ({said:?}) that differs from running pod ({own:?})"
        )));
    }
    let account = find::<ServiceAccount>(context, namespace, said);
    let quoted = format!("\"{namespace}/{said}\"");
    let account = account.map_err(|err| missing("service account", &quoted, &err))?;
    let (is, said) = (uid(&account.metadata), &spec.service_account_uid);
    if is != said {
        return Err(try_again(&format!(
            "PodCertificateRequest for pod {name} names service account UID {said:?}, which differs from the running service account ({is:?})"
        )));
    }
    Ok(())
}
