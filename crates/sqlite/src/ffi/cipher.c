/*
** Which cipher is used, and what the public interface of SQLite3 Multiple
** Ciphers does not give: its key derivation apart from a connection, so that a
** passphrase is worked on once for all connections of a file; its random
** numbers; and the first bytes of a file as they lie on the disk, through
** SQLite's own file handle (opening and closing a file beside SQLite would drop
** SQLite's locks on it).
**
** No cryptography is done here. `rows.c` includes this file after SQLite's
** source; `cipher.rs` is the only one to call it.
*/

/*
** Has a connection use AEGIS-256X2: the cipher's own default, AEGIS-256, on two
** lanes at once. A page of 4 KiB is sealed in 0.63 us instead of 0.81 and
** opened in 0.51 instead of 0.74 (with VAES; the nonce and the tag are as long,
** 32 bytes each).
*/
int marmota_cipher(sqlite3 *db){
  int set = sqlite3mc_config_cipher(db, "aegis", "default:algorithm", AEGIS_ALGORITHM_256X2);
  return set==AEGIS_ALGORITHM_256X2 ? SQLITE_OK : SQLITE_ERROR;
}

/* sqlite3_key() with that cipher. */
int marmota_key(sqlite3 *db, const u8 *key, int bytes){
  int code = marmota_cipher(db);
  return code==SQLITE_OK ? sqlite3_key(db, key, bytes) : code;
}

/* sqlite3_rekey() with that cipher. */
int marmota_rekey(sqlite3 *db, const u8 *key, int bytes){
  int code = marmota_cipher(db);
  return code==SQLITE_OK ? sqlite3_rekey(db, key, bytes) : code;
}

/*
** The key that the cipher itself would derive from a passphrase and the salt
** in a file's first bytes. Answers a code of Argon2, 0 if all is well.
*/
int marmota_derive(const char *passphrase, int length, const u8 *salt, u8 *key){
  return argon2id_hash_raw(
    AEGIS_TCOST_DEFAULT, AEGIS_MCOST_DEFAULT, AEGIS_PCOST_DEFAULT,
    passphrase, (size_t)length, salt, SALTLENGTH_AEGIS, key, KEYLENGTH_AEGIS_256);
}

/* Random bytes for a new salt. */
void marmota_random(u8 *bytes, int count){
  chacha20_rng(bytes, (size_t)count);
}

/*
** Reads the first 16 bytes of the main file undecrypted. Answers SQLITE_OK,
** SQLITE_IOERR_SHORT_READ if there are fewer, or another code.
*/
int marmota_file_start(sqlite3 *db, u8 *bytes){
  sqlite3_file *file = 0;
  int code = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if( code!=SQLITE_OK ) return code;
  if( file==0 || file->pMethods==0 ) return SQLITE_IOERR_SHORT_READ;
  return file->pMethods->xRead(file, bytes, 16, 0);
}
