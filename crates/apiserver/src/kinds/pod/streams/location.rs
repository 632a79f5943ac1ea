//! Where on a kubelet a stream is: the pod's node, and the path with its query. Pure.

use api::core::Pod;
use apimachinery::ApiError;
use k8s_openapi::api::core::v1::PodSpec;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::options::Wanted;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Attach,
    Exec,
    Log,
    PortForward,
}

impl Stream {
    pub(super) fn of(subresource: &str) -> Option<Self> {
        match subresource {
            "attach" => Some(Self::Attach),
            "exec" => Some(Self::Exec),
            "log" => Some(Self::Log),
            "portforward" => Some(Self::PortForward),
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) node: String,
    /// `/exec/default/web/main?command=date&output=1`
    pub(crate) path: String,
}

/// `None`: a pod without a node has no log yet.
pub(crate) fn locate(
    stream: Stream,
    pod: &Pod,
    wanted: &Wanted,
) -> Result<Option<Location>, ApiError> {
    let kind = match stream {
        Stream::Log => "containerLogs",
        Stream::PortForward => "portForward",
        Stream::Exec => "exec",
        Stream::Attach => "attach",
    };
    let (namespace, name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref());
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let none = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&none);
    let mut path = format!("/{kind}/{namespace}/{name}");
    if stream != Stream::PortForward {
        path.push('/');
        path.push_str(container(name, spec, &wanted.container)?);
    }
    let node = spec.node_name.clone().filter(|it| !it.is_empty());
    let Some(node) = node else {
        return match stream {
            Stream::Log => Ok(None),
            _ => Err(ApiError::bad_request(format!("pod {name} does not have a host assigned"))),
        };
    };
    for (index, (key, value)) in wanted.pairs.iter().enumerate() {
        path.push(if index == 0 { '?' } else { '&' });
        path.push_str(key);
        path.push('=');
        path.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
    }
    Ok(Some(Location { node, path }))
}

/// The one that was asked for, or the only one.
fn container<'a>(pod: &str, spec: &'a PodSpec, wanted: &'a str) -> Result<&'a str, ApiError> {
    let main: Vec<&str> = spec.containers.iter().map(|it| it.name.as_str()).collect();
    let init = spec.init_containers.iter().flatten().map(|it| it.name.as_str());
    let init: Vec<&str> = init.collect();
    let mut ephemeral = spec.ephemeral_containers.iter().flatten().map(|it| it.name.as_str());
    if !wanted.is_empty() {
        let is_known =
            main.contains(&wanted) || init.contains(&wanted) || ephemeral.any(|it| it == wanted);
        let unknown = || format!("container {wanted} is not valid for pod {pod}");
        return is_known.then_some(wanted).ok_or_else(|| ApiError::bad_request(unknown()));
    }
    if let [only] = main[..] {
        return Ok(only);
    }
    let mut message = format!("a container name must be specified for pod {pod}");
    if !main.is_empty() {
        message.push_str(&format!(", choose one of: [{}]", main.join(" ")));
    }
    if !init.is_empty() {
        message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
    }
    Err(ApiError::bad_request(message))
}
