/*
** Replaces pages of the main database inside a transaction, as SQLite's backup
** does in its destination: through the page cache, so that the transaction is
** an ordinary one for the log and for readers. The bytes are those of the file:
** encrypted pages are decrypted here.
**
** Included by rows.c.
*/
int marmota_replace_pages(
  sqlite3 *db,
  const u32 *numbers,
  const u8 *bytes,
  int count,
  int page_bytes,
  u32 database_pages
){
  Btree *tree = db->aDb[0].pBt;
  Pager *pager;
  int i, rc = SQLITE_OK;
  if( tree==0 ) return SQLITE_MISUSE;
  sqlite3_mutex_enter(db->mutex);
  sqlite3BtreeEnter(tree);
  pager = sqlite3BtreePager(tree);
  if( sqlite3BtreeGetPageSize(tree)!=page_bytes ) rc = SQLITE_MISMATCH;
  for(i=0; rc==SQLITE_OK && i<count; i++){
    DbPage *page = 0;
    /* The page with the bytes for locks has no content. */
    if( numbers[i]==(u32)(PENDING_BYTE/page_bytes)+1 ) continue;
    rc = sqlite3PagerGet(pager, (Pgno)numbers[i], &page, 0);
    if( rc==SQLITE_OK ) rc = sqlite3PagerWrite(page);
    if( rc==SQLITE_OK ){
      u8 *data = (u8*)sqlite3PagerGetData(page);
      memcpy(data, bytes + (size_t)i*(size_t)page_bytes, (size_t)page_bytes);
#ifdef MARMOTA_CIPHER
      {
        Codec *codec = sqlite3mcGetMainCodec(db);
        if( codec!=0 && sqlite3mcIsEncrypted(codec) ){
          sqlite3mcCodec(codec, data, (Pgno)numbers[i], 3);
          rc = sqlite3mcGetCodecLastError(codec);
        }
      }
#endif
      /* What the b-tree knows of the page is read again (MemPage.isInit). */
      ((u8*)sqlite3PagerGetExtra(page))[0] = 0;
    }
    if( page ) sqlite3PagerUnref(page);
  }
  if( rc==SQLITE_OK ){
    int pages = 0;
    sqlite3PagerPagecount(pager, &pages);
    if( (u32)pages>database_pages ) sqlite3PagerTruncateImage(pager, (Pgno)database_pages);
  }
  sqlite3BtreeLeave(tree);
  sqlite3_mutex_leave(db->mutex);
  return rc;
}
