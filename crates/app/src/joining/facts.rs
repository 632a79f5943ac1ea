//! What a node has to know of its cluster: the ConfigMap `kube-system/xebec-cluster`, which the control
//! plane writes and nodes may read.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use client::Client;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::commands::network::Cidrs;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "xebec-cluster";
const KEY: &str = "cluster";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Facts {
    #[serde(rename = "podCIDRs")]
    pub(crate) pod_cidrs: Cidrs,
    #[serde(rename = "serviceCIDRs")]
    pub(crate) service_cidrs: Cidrs,
}

impl Facts {
    pub(crate) async fn read(client: &Client) -> Result<Self> {
        let map = client.api::<ConfigMap>().get(NAMESPACE, NAME).await;
        let doing = || format!("reading the ConfigMap {NAMESPACE}/{NAME}");
        let map = map.with_context(doing)?;
        let text = map.data.as_ref().and_then(|it| it.get(KEY)).with_context(doing)?;
        serde_json::from_str(text).with_context(doing)
    }

    pub(super) fn config_map(&self) -> Result<ConfigMap> {
        let text = serde_json::to_string(self).context("encoding what nodes have to know")?;
        Ok(ConfigMap {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(KEY.to_owned(), text)])),
            ..ConfigMap::default()
        })
    }
}
