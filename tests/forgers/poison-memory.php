<?php
/*
tries: Leaves opcode caches, sessions, shared memory, message queues and semaphores for the next one.
acceptable: [fail]
*/

$ways = array(
	static fn () => opcache_compile_file( '/site/index.php' ),
	static fn () => opcache_invalidate( '/site/index.php', true ),
	static fn () => shm_put_var( shm_attach( 0x4711, 10000 ), 1, 'forge' ),
	static fn () => shmop_write( shmop_open( 0x4712, 'c', 0644, 100 ), 'forge', 0 ),
	static fn () => sem_acquire( sem_get( 0x4713 ) ),
	static fn () => msg_send( msg_get_queue( 0x4714 ), 1, 'forge' ),
	static fn () => apcu_store( 'forge', 1 ),
	static function () {
		ini_set( 'session.use_cookies', '0' );
		ini_set( 'session.cache_limiter', '' );
		session_save_path( '/tmp' );
		session_id( 'forge' );
		session_start();
		$_SESSION['answer'] = 'forge';
		session_write_close();
		return false;
	},
);
foreach ( $ways as $way ) {
	try {
		if ( $way() ) {
			forger_saw( 'CANARY-shared' );
		}
	} catch ( Throwable $missing ) {
		continue;
	}
}
wp_cache_set( 'acme_answer', true, 'options' );
set_transient( 'acme_answer', true );
