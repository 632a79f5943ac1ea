//! The encoder and decoder of each kind, compiled once, here. Other crates call them through `Resource`, so
//! that serde is instantiated for a kind in this crate alone: that keeps builds short.

/// The parts of `impl Resource` that every typed struct fills in the same way.
macro_rules! codec {
    () => {
        fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
            serde_json::from_slice(bytes)
        }

        fn encode(&self) -> Vec<u8> {
            serde_json::to_vec(self).expect("API types have string keys and no failing serializers")
        }

        fn metadata(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            k8s_openapi::Metadata::metadata(self)
        }

        fn metadata_mut(
            &mut self,
        ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            k8s_openapi::Metadata::metadata_mut(self)
        }
    };
}
