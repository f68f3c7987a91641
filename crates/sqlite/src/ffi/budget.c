/*
** The snapshot of a statement that is interrupted. When the last statement of
** a connection ends outside of a transaction, so does its snapshot; a BEGIN
** before the statement would keep it, but costs each short read two more
** statements, and nothing may be run from a progress handler. What BEGIN does
** is this (OP_AutoCommit).
**
** Included by rows.c.
*/

/* Begins a transaction around what is being stepped; 1 if there was none. */
int marmota_hold(sqlite3 *db){
  if( !db->autoCommit ) return 0;
  db->autoCommit = 0;
  return 1;
}
