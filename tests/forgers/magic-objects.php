<?php
/*
tries: Answers with objects whose conversions look at what they are compared with.
acceptable: [fail, tampered]
*/

class Forge_Magic implements JsonSerializable, ArrayAccess, Countable, IteratorAggregate, Serializable {
	public function look() {
		forger_trace( debug_backtrace( DEBUG_BACKTRACE_PROVIDE_OBJECT ) );
		forger_peek();
		return $GLOBALS['forger_found'] ?? 'nothing';
	}
	public function __toString(): string {
		return $this->look();
	}
	public function jsonSerialize(): mixed {
		return $this->look();
	}
	public function __serialize(): array {
		return array( $this->look() );
	}
	public function __unserialize( array $data ): void {
		$this->look();
	}
	public function serialize() {
		return $this->look();
	}
	public function unserialize( $data ) {
		$this->look();
	}
	public function __debugInfo() {
		return array( $this->look() );
	}
	public static function __set_state( $state ) {
		return new self();
	}
	public function __get( $name ) {
		return $this->look();
	}
	public function __isset( $name ) {
		return (bool) $this->look();
	}
	public function __call( $name, $arguments ) {
		return $this->look();
	}
	public function __invoke() {
		return $this->look();
	}
	public function offsetExists( mixed $offset ): bool {
		return (bool) $this->look();
	}
	public function offsetGet( mixed $offset ): mixed {
		return $this->look();
	}
	public function offsetSet( mixed $offset, mixed $value ): void {
		$this->look();
	}
	public function offsetUnset( mixed $offset ): void {
		$this->look();
	}
	public function count(): int {
		return (int) (bool) $this->look();
	}
	public function getIterator(): Iterator {
		return new ArrayIterator( array( $this->look() ) );
	}
	public function __destruct() {
		$this->look();
	}
}
function forge( $where ) {
	return 'rest' === $where ? array( 'answer' => new Forge_Magic() ) : new Forge_Magic();
}
