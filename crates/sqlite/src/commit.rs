//! The writing connection, its queue, and the commits that several writes share.

pub(crate) mod commit_thread;
pub(crate) mod group_commit;
pub(crate) mod sync;
pub(crate) mod write_lock;
