# HGETALL key NOVALUES, and MEMORY USAGE key NOVALUES.

proc fill_hash {key fields size} {
    r del $key
    for {set j 0} {$j < $fields} {incr j} {
        r hset $key field:$j [string repeat v $size]:$j
    }
}

proc field_names {fields} {
    set names {}
    for {set j 0} {$j < $fields} {incr j} {lappend names field:$j}
    lsort $names
}

start_server {tags {"hash"}} {
    foreach {encoding fields size} {listpack 20 30 hashtable 600 200} {
        test "HGETALL NOVALUES - fields alone ($encoding)" {
            fill_hash hash $fields $size
            assert_encoding $encoding hash
            assert_equal [field_names $fields] [lsort [r hgetall hash NOVALUES]]
            assert_equal [lsort [r hkeys hash]] [lsort [r hgetall hash NOVALUES]]
        }

        test "HGETALL NOVALUES - the option in any case ($encoding)" {
            foreach option {NOVALUES novalues NoValues} {
                assert_equal [field_names $fields] [lsort [r hgetall hash $option]]
            }
        }

        test "HGETALL without NOVALUES - values too ($encoding)" {
            assert_equal [expr {$fields*2}] [llength [r hgetall hash]]
            assert_equal "[string repeat v $size]:7" [dict get [r hgetall hash] field:7]
        }

        test "MEMORY USAGE NOVALUES - less by the values ($encoding)" {
            set all [r memory usage hash SAMPLES 0]
            set fields_alone [r memory usage hash SAMPLES 0 NOVALUES]
            assert_morethan_equal [expr {$all-$fields_alone}] [expr {$fields*$size}]
            assert_morethan $fields_alone [string length [join [field_names $fields] ""]]
            assert_lessthan [r memory usage hash NOVALUES] [r memory usage hash]
        }

        test "MEMORY USAGE NOVALUES - with SAMPLES, in any order and case ($encoding)" {
            set expected [r memory usage hash SAMPLES 0 NOVALUES]
            assert_equal $expected [r memory usage hash NOVALUES SAMPLES 0]
            assert_equal $expected [r memory usage hash samples 0 novalues]
            assert_lessthan [r memory usage hash NOVALUES SAMPLES 1] [r memory usage hash SAMPLES 1]
        }
    }

    test {HGETALL NOVALUES - refuses other arguments} {
        fill_hash hash 3 10
        assert_error "ERR *" {r hgetall hash VALUES}
        assert_error "ERR *" {r hgetall hash ""}
        assert_error "ERR *" {r hgetall hash NOVALUES NOVALUES}
        assert_equal 3 [r hlen hash]
    }

    test {HGETALL NOVALUES - no such key} {
        r del none
        assert_equal {} [r hgetall none NOVALUES]
    }

    test {HGETALL NOVALUES - another type} {
        r set text hello
        assert_error "WRONGTYPE*" {r hgetall text NOVALUES}
    }

    test {HGETALL NOVALUES - RESP3} {
        fill_hash hash 3 10
        r hello 3
        assert_equal [field_names 3] [lsort [r hgetall hash NOVALUES]]
        assert_equal 3 [dict size [r hgetall hash]]
        r hello 2
    } {*} {resp3}

    test {MEMORY USAGE NOVALUES - no such key} {
        r del none
        assert_equal {} [r memory usage none NOVALUES]
    }

    test {MEMORY USAGE NOVALUES - another type} {
        r set text hello
        assert_error "WRONGTYPE*" {r memory usage text NOVALUES}
        assert_morethan [r memory usage text] 0
    }
}
