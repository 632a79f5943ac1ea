//! Ports by number or by the name that the container gives them.

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub(crate) fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|it| it.name.as_ref() == Some(name));
            match named.map(|it| it.container_port).or_else(|| name.parse().ok()) {
                Some(number) => number,
                None => return Err(format!("couldn't find port: {name}")),
            }
        }
    };
    let is_port = u16::try_from(number).ok().filter(|it| *it > 0);
    is_port.ok_or_else(|| format!("invalid port number: {number}"))
}
