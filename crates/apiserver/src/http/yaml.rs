//! YAML bodies become JSON at the border; nothing behind it knows YAML.

use serde_json::Value;

pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|err| err.to_string())?;
    serde_saphyr::from_str(text).map_err(|err| err.to_string())
}
