<?php
/**
 * What a site holds: one line of JSON after a mark, for a comparison with what it held before.
 *
 * Runs as the last assertion of a test, after its teardown. A row is a key, a label for a reader and a digest.
 *
 * @package Refcompare
 */

declare(strict_types=1);

return ( static function (): bool {
	global $wpdb;

	$labels = array(
		'options'       => fn( $row ) => array( $row['option_name'], $row['option_name'] ),
		'posts'         => fn( $row ) => array( $row['ID'], $row['post_type'] . ' ' . $row['post_title'] ),
		'users'         => fn( $row ) => array( $row['ID'], $row['user_login'] ),
		'terms'         => fn( $row ) => array( $row['term_id'], $row['name'] ),
		'term_taxonomy' => fn( $row ) => array( $row['term_taxonomy_id'], $row['taxonomy'] ),
		'comments'      => fn( $row ) => array( $row['comment_ID'], $row['comment_content'] ),
	);
	$rows   = array();
	foreach ( $wpdb->get_col( 'SHOW TABLES' ) as $table ) { // phpcs:ignore WordPress.DB.DirectDatabaseQuery
		$name          = str_starts_with( $table, $wpdb->prefix ) ? substr( $table, strlen( $wpdb->prefix ) ) : $table;
		$rows[ $name ] = array();
		$quoted        = '`' . str_replace( '`', '``', $table ) . '`';
		foreach ( (array) $wpdb->get_results( "SELECT * FROM $quoted", ARRAY_A ) as $row ) { // phpcs:ignore WordPress.DB
			list( $key, $label ) = isset( $labels[ $name ] )
				? $labels[ $name ]( $row )
				: array( 'term_relationships' === $name ? implode( ':', $row ) : reset( $row ), $row['meta_key'] ?? '' );
			if ( 'options' === $name && $wpdb->prefix . 'user_roles' === $key ) {
				continue;
			}
			$digest          = md5( (string) wp_json_encode( $row, JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR ) );
			$rows[ $name ][] = array( (string) $key, mb_substr( mb_scrub( (string) $label, 'UTF-8' ), 0, 80 ), $digest );
		}
	}
	foreach ( (array) get_option( $wpdb->prefix . 'user_roles' ) as $role => $about ) {
		$rows['roles'][] = array( (string) $role, (string) $role, md5( (string) wp_json_encode( $about ) ) );
	}
	$content = rtrim( WP_CONTENT_DIR, '/' );
	$files   = new RecursiveIteratorIterator(
		new RecursiveDirectoryIterator( $content, FilesystemIterator::SKIP_DOTS ),
		RecursiveIteratorIterator::LEAVES_ONLY,
		RecursiveIteratorIterator::CATCH_GET_CHILD
	);
	foreach ( $files as $file ) {
		$path = substr( $file->getPathname(), strlen( $content ) + 1 );
		if ( ! str_starts_with( $path, 'plugins/wp-bench-candidate-' ) ) {
			$rows['files'][] = array( $path, $path, $file->getSize() . ':' . $file->getMTime() );
		}
	}
	echo "\n@MARK@", base64_encode( (string) gzcompress( (string) wp_json_encode( $rows, JSON_INVALID_UTF8_SUBSTITUTE ) ) ), "\n"; // phpcs:ignore
	return true;
} )();
