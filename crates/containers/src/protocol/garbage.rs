//! What any bytes do to holders and to those who speak with them. The fuzz targets call it, and the
//! test suite does with random bytes.

use super::{decode_message, decode_request, encode_message, encode_request};

/// A packet in either direction: refused, or the same again when it is written and read.
pub fn packet(bytes: &[u8]) {
    if let Ok((id, Ok(request))) = decode_request(bytes)
        && let Ok(packet) = encode_request(id, &request)
    {
        let again = decode_request(&packet).expect("what we write can be read");
        assert_eq!(format!("{again:?}"), format!("{:?}", (id, Ok::<_, ()>(request))));
    }
    if let Ok(message) = decode_message(bytes)
        && let Ok(packet) = encode_message(&message)
    {
        let again = decode_message(&packet).expect("what we write can be read");
        assert_eq!(format!("{again:?}"), format!("{message:?}"));
    }
}
