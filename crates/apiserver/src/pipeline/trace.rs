//! The order of the stages, as a test sees it. Costs nothing outside tests.

#[cfg(test)]
thread_local! {
    static PASSED: std::cell::RefCell<Vec<&'static str>> = const { std::cell::RefCell::new(Vec::new()) };
}

pub(super) fn passed(stage: &'static str) {
    #[cfg(test)]
    PASSED.with_borrow_mut(|it| it.push(stage));
    let _ = stage;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::core::ConfigMap;
    use apimachinery::User;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use lifecycle::{Readiness, Tasks};
    use stdx::World;

    use super::PASSED;
    use crate::{Config, Parts, Server};

    #[tokio::test(start_paused = true)]
    async fn a_create_passes_every_stage_in_order() {
        let parts = Parts {
            store: Arc::new(kvstore::memory::Memory::new()),
            world: World::simulated(1),
            tasks: Tasks::new(),
            readiness: Readiness::default(),
            metrics: telemetry::Registry::default(),
            service_account_keys: vec![Arc::new(
                authn::pki::ServiceAccountKey::create().expect("a key"),
            )],
        };
        let server = Server::start(Config::default(), parts).await.expect("started");
        PASSED.take();
        let metadata = ObjectMeta {
            name: Some("a".to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        };
        let client = server.client(User::new("admin", &["system:masters"]), "test");
        let object = ConfigMap { metadata, ..ConfigMap::default() };
        client.api::<ConfigMap>().create(object).await.expect("created");
        assert_eq!(
            PASSED.take().join(" > "),
            "authenticate > seat > authorize > find kind > read > decode > mutate > validate > admit > store"
        );
    }
}
