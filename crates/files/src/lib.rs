//! Files in a folder or a bucket. A row has the description of a file ([`File`]), the storage has
//! its bytes.
//!
//! ```
//! use marmota_derive::Model;
//! use marmota_files::{File, FileStorage};
//! use marmota_memory::Memory;
//! use marmota_store::Store;
//!
//! #[derive(Clone, Debug, Model)]
//! struct Issue {
//!     id: i64,
//!     title: String,
//!     #[model(bytes_max = "10 MB", types("image/*", "application/pdf", "text/plain"))]
//!     attachment: Option<File>,
//! }
//!
//! # let folder = std::env::temp_dir().join(format!("marmota-files-{}", std::process::id()));
//! let storage = FileStorage::open(&format!("file://{}", folder.display()))?;
//! let store = storage.attach(Store::builder(Memory::new()).model::<Issue>()).open()?;
//! storage.start(&store)?;
//!
//! // The bytes are on the disk before the row is written.
//! let file = storage.save(Issue::ATTACHMENT, "notes.txt", &mut &b"marmots whistle"[..])?;
//! let issue = Issue { id: 0, title: "Sounds".to_owned(), attachment: Some(file) };
//! let id = store.insert(&issue).run()?;
//!
//! let file = store.get::<Issue>(id).run()?.attachment.unwrap();
//! assert_eq!((&*file.name, file.bytes), ("notes.txt", 15));
//! assert_eq!(storage.read_all(&file)?, b"marmots whistle");
//! # storage.stop();
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The order of a write
//! 1. [`FileUpload`] writes the bytes under a new random name, and syncs them to the disk.
//! 2. The row is written, with the description. A guard of the store refuses a description whose
//!    bytes were not stored for this field, or that another row has.
//! 3. After the commit, the bytes of a replaced or deleted file are removed.
//!
//! A crash leaves bytes without a row at worst. [`FileStorage::sweep`] removes them later.
#![forbid(unsafe_code)]

mod guard;
mod keeper;
mod media_type;
mod object_writer;
mod options;
mod owner;
mod reader;
mod resumable;
mod signature;
mod space;
mod storage;
#[cfg(feature = "thumbnails")]
mod thumbnail;
mod upload;

pub use keeper::SweepReport;
pub use marmota_model::File;
pub use options::FileOptions;
pub use reader::FileReader;
pub use resumable::{PartialUpload, UploadPart};
pub use storage::FileStorage;
#[cfg(feature = "thumbnails")]
pub use thumbnail::{THUMBNAIL_SIZES, ThumbnailImage};
pub use upload::{FileLimits, FileUpload};
