/*
** The snapshot of a statement that is interrupted. When the last statement of
** a connection ends outside of a transaction, so does its snapshot; a BEGIN
** before the statement would keep it, but costs each short read two more
** statements, and nothing may be run from a progress handler. What BEGIN does
** is this (OP_AutoCommit).
**
** Included by rows.c.
*/

/*
** 1 if a statement is being stepped. The progress handler is also called when
** a statement has halted, and committed, and is about to return (vdbe_return);
** interrupted there, it would fail although it has taken place.
*/
int marmota_is_running(sqlite3 *db){
  Vdbe *v;
  for(v=db->pVdbe; v; v=v->pVNext){
    if( v->eVdbeState==VDBE_RUN_STATE ) return 1;
  }
  return 0;
}

/* Begins a transaction around what is being stepped; 1 if there was none. */
int marmota_hold(sqlite3 *db){
  if( !db->autoCommit ) return 0;
  db->autoCommit = 0;
  return 1;
}

/*
** An interrupted write undoes the transaction around it, unless it is
** read-only. What is stepped is taken for that here, so that it ends as by any
** other error: what it has done is left to a savepoint. It is a write again by
** marmota_restore(), once it is reset.
**
** SQLite does not look at the flag between here and the end of the statement
** (sqlite3VdbeHalt), which does not count it as a write any more then.
*/
void marmota_spare(sqlite3 *db){
  Vdbe *v;
  if( db->autoCommit ) return;
  for(v=db->pVdbe; v; v=v->pVNext){
    if( v->eVdbeState==VDBE_RUN_STATE && !v->readOnly ){
      v->readOnly = 1;
      db->nVdbeWrite--;
    }
  }
}

/* Takes those that write for what they are. None of them is being stepped. */
void marmota_restore(sqlite3 *db){
  Vdbe *v;
  int i;
  for(v=db->pVdbe; v; v=v->pVNext){
    if( !v->readOnly || v->eVdbeState==VDBE_RUN_STATE ) continue;
    for(i=0; i<v->nOp; i++){
      if( v->aOp[i].opcode==OP_Transaction && v->aOp[i].p2!=0 ){
        v->readOnly = 0;
        break;
      }
    }
  }
}
