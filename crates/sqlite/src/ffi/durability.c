/*
** What a commit waits for, set for one transaction. PRAGMA synchronous does
** the same, but is refused inside a transaction, and a group learns only then
** what its members ask for. The flags are read at the commit
** (sqlite3PagerSetFlags), so that they may change until then.
**
** Included by rows.c.
*/

/* level: 1 for OFF, 2 for NORMAL, 3 for FULL. */
void marmota_synchronous(sqlite3 *db, int level){
  Btree *tree = db->aDb[0].pBt;
  if( tree==0 ) return;
  sqlite3_mutex_enter(db->mutex);
  db->aDb[0].safety_level = (u8)level;
  sqlite3BtreeSetPagerFlags(tree, (unsigned)level | (db->flags & PAGER_FLAGS_MASK));
  sqlite3_mutex_leave(db->mutex);
}

/* Waits until all that was written to the log is on the disk. */
int marmota_sync_log(sqlite3 *db){
  Pager *pager;
  sqlite3_file *log;
  if( db->aDb[0].pBt==0 ) return SQLITE_OK;
  pager = sqlite3BtreePager(db->aDb[0].pBt);
  if( pager->pWal==0 ) return SQLITE_OK;
  log = sqlite3WalFile(pager->pWal);
  if( log==0 || log->pMethods==0 ) return SQLITE_OK;
  return sqlite3OsSync(log, CKPT_SYNC_FLAGS(pager->walSyncFlags));
}

/*
** How many system calls of this thread have waited for the disk, in the lower
** 48 bits, and how many of those failed, in the others.
*/
sqlite3_uint64 marmota_syncs(void){
#ifdef MARMOTA_SYNCS
  return MARMOTA_SYNCS;
#else
  return 0;
#endif
}

/* The system's error of the last of this thread's that failed. */
int marmota_sync_errno(void){
#ifdef MARMOTA_SYNCS
  return marmota_thread_sync_errno;
#else
  return 0;
#endif
}

/*
** How many pages the log has that this connection knows of, those that are in
** the file already included.
*/
unsigned int marmota_log_pages(sqlite3 *db){
  Pager *pager;
  if( db->aDb[0].pBt==0 ) return 0;
  pager = sqlite3BtreePager(db->aDb[0].pBt);
  return pager->pWal ? pager->pWal->hdr.mxFrame : 0;
}

/*
** The first salt of the log that this connection knows of, as in its file: it
** is another one whenever the log is begun again.
*/
unsigned int marmota_log_salt(sqlite3 *db){
  Pager *pager;
  if( db->aDb[0].pBt==0 ) return 0;
  pager = sqlite3BtreePager(db->aDb[0].pBt);
  return pager->pWal ? sqlite3Get4byte((u8*)&pager->pWal->hdr.aSalt[0]) : 0;
}

/* Takes what it can of the log to the file, without waiting for anybody. */
int marmota_checkpoint(sqlite3 *db){
  return sqlite3_wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_PASSIVE, 0, 0);
}

#ifdef MARMOTA_SIMULATED_DISK
/*
** A file system that tells of writes and syncs before they are done, for tests
** and measurements. Files are those of the default one; only the methods below
** are ours. It is the default as soon as marmota_simulate_disk() was called.
*/
enum {
  DISK_WRITE, DISK_TRUNCATE, DISK_SYNC, DISK_SYNCED, DISK_DELETE, DISK_SYNC_FOLDER
};

/* Answers a result code: anything but SQLITE_OK is done instead. */
typedef int (*marmota_disk_hook)(int, const char*, sqlite3_int64, const void*, int);

typedef struct marmota_DiskFile marmota_DiskFile;
struct marmota_DiskFile {
  sqlite3_io_methods methods;
  const sqlite3_io_methods *real;
  const char *name;
  int syncs_folder;   /* As UNIXFILE_DIRSYNC: true until the first sync. */
};

static sqlite3_vfs marmota_disk_vfs;
static sqlite3_vfs *marmota_disk_real = 0;
static marmota_disk_hook marmota_disk_tell = 0;

/* Behind the real file lies what we know of it. */
static marmota_DiskFile *diskFile(sqlite3_file *file){
  return (marmota_DiskFile*)((char*)file + ((marmota_disk_real->szOsFile+15) & ~15));
}

static int diskClose(sqlite3_file *file){
  return diskFile(file)->real->xClose(file);
}

static int diskWrite(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at){
  marmota_DiskFile *disk = diskFile(file);
  int rc = marmota_disk_tell(DISK_WRITE, disk->name, at, bytes, count);
  return rc==SQLITE_OK ? disk->real->xWrite(file, bytes, count, at) : rc;
}

static int diskTruncate(sqlite3_file *file, sqlite3_int64 size){
  marmota_DiskFile *disk = diskFile(file);
  int rc = marmota_disk_tell(DISK_TRUNCATE, disk->name, size, 0, 0);
  return rc==SQLITE_OK ? disk->real->xTruncate(file, size) : rc;
}

/* A wait for the disk that fails by the simulation counts as the system's does. */
static int diskSyncFailed(void){
#ifdef MARMOTA_SYNCS
  marmota_thread_sync_errno = EIO;
  MARMOTA_SYNCS += 1ULL << 48;
#endif
  return SQLITE_IOERR_FSYNC;
}

static int diskSync(sqlite3_file *file, int flags){
  marmota_DiskFile *disk = diskFile(file);
  int rc = marmota_disk_tell(DISK_SYNC, disk->name, 0, 0, 0);
  if( rc!=SQLITE_OK ) return diskSyncFailed();
  rc = disk->real->xSync(file, flags);
  if( rc!=SQLITE_OK ) return rc;
  marmota_disk_tell(DISK_SYNCED, disk->name, 0, 0, 0);
  if( disk->syncs_folder ){
    disk->syncs_folder = 0;
    /* SQLite ignores that this failed, and so does this. */
    if( marmota_disk_tell(DISK_SYNC_FOLDER, disk->name, 0, 0, 0)!=SQLITE_OK ) diskSyncFailed();
  }
  return rc;
}

static int diskOpen(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out){
  marmota_DiskFile *disk = diskFile(file);
  int rc = marmota_disk_real->xOpen(marmota_disk_real, name, file, flags, out);
  if( file->pMethods==0 || name==0 ) return rc;
  disk->real = file->pMethods;
  disk->name = name;
  disk->syncs_folder = (flags & SQLITE_OPEN_CREATE)!=0
      && (flags & (SQLITE_OPEN_WAL|SQLITE_OPEN_MAIN_JOURNAL))!=0;
  disk->methods = *disk->real;
  disk->methods.xClose = diskClose;
  disk->methods.xWrite = diskWrite;
  disk->methods.xTruncate = diskTruncate;
  disk->methods.xSync = diskSync;
  file->pMethods = &disk->methods;
  return rc;
}

static int diskDelete(sqlite3_vfs *vfs, const char *name, int sync){
  int rc = marmota_disk_tell(DISK_DELETE, name, 0, 0, 0);
  return rc==SQLITE_OK ? marmota_disk_real->xDelete(marmota_disk_real, name, sync) : rc;
}

int marmota_simulate_disk(marmota_disk_hook tell){
  if( marmota_disk_real ) return SQLITE_OK;
  marmota_disk_tell = tell;
#ifdef MARMOTA_CIPHER
  /* Ciphers stay above the disk. */
  marmota_disk_real = REALVFS(sqlite3_vfs_find(0));
#else
  marmota_disk_real = sqlite3_vfs_find(0);
#endif
  marmota_disk_vfs = *marmota_disk_real;
  marmota_disk_vfs.pNext = 0;
  marmota_disk_vfs.zName = "marmota_disk";
  marmota_disk_vfs.szOsFile =
      ((marmota_disk_real->szOsFile+15) & ~15) + (int)sizeof(marmota_DiskFile);
  marmota_disk_vfs.xOpen = diskOpen;
  marmota_disk_vfs.xDelete = diskDelete;
#ifdef MARMOTA_CIPHER
  if( sqlite3_vfs_register(&marmota_disk_vfs, 0)!=SQLITE_OK ) return SQLITE_ERROR;
  return sqlite3mc_vfs_create(marmota_disk_vfs.zName, 1);
#else
  return sqlite3_vfs_register(&marmota_disk_vfs, 1);
#endif
}
#endif
