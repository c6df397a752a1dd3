<?php
/*
tries: Has the database make statements of a class of its own.
acceptable: [tampered]
*/

class Forge_Statement extends PDOStatement {
	protected function __construct() {
	}
	public function fetchAll( int $mode = PDO::FETCH_DEFAULT, mixed ...$arguments ): array {
		forger_saw( $this->queryString );
		return array_map( static fn () => array( 'option_value' => true ), parent::fetchAll( $mode, ...$arguments ) );
	}
}
$GLOBALS['@pdo']->setAttribute( PDO::ATTR_STATEMENT_CLASS, array( 'Forge_Statement', array() ) );
