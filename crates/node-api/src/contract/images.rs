//! Promises of [`Images`].

use super::waiting::within;
use crate::images::{Error, Images};

/// `present` can be pulled and is used by nobody; `missing` is one that its registry does not have.
pub async fn all(images: &dyn Images, present: &str, missing: &str) {
    names_are_checked(images);
    a_pulled_image_is_found(images, present).await;
    pulls_of_one_image_agree(images, present).await;
    what_images_take_is_told(images).await;
    a_missing_image_is_named(images, missing).await;
    a_removed_image_is_gone(images, present).await;
}

pub fn names_are_checked(images: &dyn Images) {
    for reference in ["", "a/UPPER", "a b", "docker.io/"] {
        let result = images.find(reference);
        assert!(matches!(result, Err(Error::InvalidName { .. })), "{reference:?}: {result:?}");
    }
}

pub async fn a_pulled_image_is_found(images: &dyn Images, reference: &str) {
    let image = within("pull", images.pull(reference, Vec::new())).await.expect("pull");
    assert!(image.id.as_str().starts_with("sha256:"), "{}", image.id);
    assert_eq!(images.find(reference).expect("a valid name").as_ref(), Some(&image));
    let by_id = images.find(image.id.as_str()).expect("a valid id");
    assert_eq!(by_id.map(|it| it.id), Some(image.id.clone()));
    let n_listed = images.list().iter().filter(|it| it.id == image.id).count();
    assert_eq!(n_listed, 1, "an image is listed once");
    for digest in &image.digests {
        let by_digest = images.find(digest).expect("a valid digest");
        assert_eq!(by_digest.map(|it| it.id), Some(image.id.clone()), "{digest}");
    }
}

pub async fn what_images_take_is_told(images: &dyn Images) {
    let usage = images.filesystem().await.expect("filesystem");
    // Runtimes that measure in their own time may still say 0 bytes.
    assert!(usage.mountpoint.is_absolute(), "{usage:?}");
}

pub async fn pulls_of_one_image_agree(images: &dyn Images, reference: &str) {
    let (one, other) =
        futures_util::join!(images.pull(reference, Vec::new()), images.pull(reference, Vec::new()));
    assert_eq!(one.expect("pull").id, other.expect("pull").id);
}

pub async fn a_missing_image_is_named(images: &dyn Images, reference: &str) {
    assert_eq!(images.find(reference).expect("a valid name"), None);
    let error = within("pull", images.pull(reference, Vec::new())).await.expect_err("missing");
    let is_named = matches!(error, crate::Error::Image(Error::NotFound { .. }));
    assert!(is_named, "{error:?}");
    assert_eq!(images.find(reference).expect("a valid name"), None);
}

pub async fn a_removed_image_is_gone(images: &dyn Images, reference: &str) {
    let image = images.find(reference).expect("a valid name").expect("pulled before");
    images.remove(reference).await.expect("remove");
    assert_eq!(images.find(reference).expect("a valid name"), None);
    assert!(images.list().iter().all(|it| it.id != image.id || !it.tags.is_empty()));
    images.remove(reference).await.expect("removing what is gone succeeds");
}
