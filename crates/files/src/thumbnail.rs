//! Smaller versions of images, made when they are first requested and kept in the storage.
//!
//! An image comes from outside: its size is read before it is decoded, the decoder's memory is
//! limited, and few images are decoded at once.

use std::io::Cursor;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits};
use marmota_model::{Error, ErrorKind, File, Result};
use tokio::sync::Semaphore;

use crate::reader::FileReader;
use crate::space::{Space, joined, thumbnail_folder};

/// The widths and heights that are offered, in pixels. Others would let a client fill the storage.
pub const THUMBNAIL_SIZES: [u32; 9] = [64, 100, 128, 200, 256, 400, 512, 800, 1024];

/// The maximum number of pixels of an image.
const PIXELS_MAX: u64 = 50_000_000;
/// The maximum width and height of an image.
const SIDE_MAX: u32 = 20_000;
/// The maximum size of an image's file.
const FILE_BYTES_MAX: u64 = 50_000_000;
/// The maximum memory of a decoder, in bytes; 50 million pixels of 4 bytes, and some more.
const ALLOC_BYTES_MAX: u64 = 256 << 20;
/// The images that are decoded at once.
const DECODERS: usize = 2;
const JPEG_QUALITY: u8 = 82;

static TURNS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(DECODERS));

/// A smaller version of an image.
#[derive(Clone, Debug)]
pub struct ThumbnailImage {
    /// `image/jpeg`, or `image/png` for an image with transparent pixels.
    pub content_type: &'static str,
    /// The encoded image.
    pub bytes: Bytes,
}

impl ThumbnailImage {
    fn of_bytes(bytes: Bytes) -> Self {
        let is_png = bytes.starts_with(b"\x89PNG");
        Self { content_type: if is_png { "image/png" } else { "image/jpeg" }, bytes }
    }
}

/// Returns the version of an image that fits into a size.
pub(crate) async fn of(
    space: &Arc<Space>,
    file: &File,
    width: u32,
    height: u32,
) -> Result<ThumbnailImage> {
    if !THUMBNAIL_SIZES.contains(&width) || !THUMBNAIL_SIZES.contains(&height) {
        let sizes = THUMBNAIL_SIZES.map(|size| size.to_string()).join(", ");
        let message = format!("thumbnails of {width}x{height} are not offered; use two of {sizes}");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let format = format_of(file)?;
    let (of_task, file) = (Arc::clone(space), file.clone());
    joined(space.spawn(async move {
        let name = format!("{}/{width}x{height}", thumbnail_folder(file.id));
        if let Some(known) = of_task.get(&name).await? {
            return Ok(ThumbnailImage::of_bytes(known));
        }
        let turn = TURNS.acquire().await;
        let mut bytes = Vec::new();
        let mut reader = FileReader::open(&of_task, &file, 0..file.bytes).await?;
        while let Some(piece) = reader.next().await? {
            bytes.extend_from_slice(&piece);
        }
        let made = of_task.spawn_blocking(move || smaller(&bytes, format, width, height))?;
        let made = joined(made).await?;
        drop(turn);
        of_task.put(&name, made.clone()).await?;
        Ok(ThumbnailImage::of_bytes(made.into()))
    })?)
    .await
}

fn format_of(file: &File) -> Result<ImageFormat> {
    let refused =
        |why: String| Error::new(ErrorKind::Invalid, format!("{why}; read the file itself"));
    if file.bytes > FILE_BYTES_MAX {
        return Err(refused(format!("the image has more than {FILE_BYTES_MAX} bytes")));
    }
    match &*file.content_type {
        "image/png" => Ok(ImageFormat::Png),
        "image/jpeg" => Ok(ImageFormat::Jpeg),
        "image/gif" => Ok(ImageFormat::Gif),
        "image/webp" => Ok(ImageFormat::WebP),
        other => Err(refused(format!("files of type {other} have no thumbnails"))),
    }
}

/// Decodes an image and makes it smaller; it is never enlarged.
fn smaller(bytes: &[u8], format: ImageFormat, width: u32, height: u32) -> Result<Vec<u8>> {
    let failed = |error: image::ImageError| {
        let message = format!("the image cannot be decoded: {error}");
        Error::new(ErrorKind::Invalid, message).with_source(error)
    };
    let mut limits = Limits::default();
    limits.max_image_width = Some(SIDE_MAX);
    limits.max_image_height = Some(SIDE_MAX);
    limits.max_alloc = Some(ALLOC_BYTES_MAX);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(failed)?;
    let (of_width, of_height) = decoder.dimensions();
    if u64::from(of_width) * u64::from(of_height) > PIXELS_MAX {
        let message =
            format!("the image has {of_width}x{of_height} pixels; {PIXELS_MAX} are allowed");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let orientation = decoder.orientation().map_err(failed)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(failed)?;
    image.apply_orientation(orientation);
    if image.width() > width || image.height() > height {
        image = image.thumbnail(width, height);
    }
    let mut out = Vec::new();
    if image.color().has_alpha() {
        let image = DynamicImage::ImageRgba8(image.into_rgba8());
        image.write_to(&mut Cursor::new(&mut out), ImageFormat::Png).map_err(failed)?;
    } else {
        let image = image.into_rgb8();
        JpegEncoder::new_with_quality(&mut out, JPEG_QUALITY)
            .encode_image(&image)
            .map_err(failed)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
        bytes
    }

    #[test]
    fn images_fit_into_the_size() {
        let image = DynamicImage::new_rgb8(600, 300);
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let bytes = smaller(&encoded(&image, format), format, 200, 200).unwrap();
            let made = image::load_from_memory(&bytes).unwrap();
            assert_eq!((made.width(), made.height()), (200, 100), "{format:?}");
        }
        let small = encoded(&DynamicImage::new_rgba8(5, 5), ImageFormat::Png);
        let made = smaller(&small, ImageFormat::Png, 200, 200).unwrap();
        assert_eq!(image::load_from_memory(&made).unwrap().width(), 5);
    }

    #[test]
    fn bombs_are_refused_before_they_are_decoded() {
        // A head that announces 50,000 × 50,000 pixels, with a valid checksum.
        let mut png = encoded(&DynamicImage::new_luma8(1, 1), ImageFormat::Png);
        png[16..20].copy_from_slice(&50_000_u32.to_be_bytes());
        png[20..24].copy_from_slice(&50_000_u32.to_be_bytes());
        let checksum = crc32(&png[12..29]);
        png[29..33].copy_from_slice(&checksum.to_be_bytes());
        // Many pixels that are all the same: some kilobytes become 400 megabytes.
        let bomb = {
            let image = DynamicImage::new_luma8(19_999, 10_000);
            encoded(&image, ImageFormat::Png)
        };
        for (bytes, why) in [
            (&png[..], "exceeds"),
            (&bomb, "the image has 19999x10000 pixels; 50000000 are allowed"),
            (b"\x89PNG\r\n\x1a\n", "cannot be decoded"),
            (b"", "cannot be decoded"),
        ] {
            let refused = smaller(bytes, ImageFormat::Png, 64, 64).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            assert!(refused.message().contains(why), "{refused}");
        }
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 }
            })
        })
    }
}
