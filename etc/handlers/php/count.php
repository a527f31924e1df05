<?php

/*
 * An example: counts to {"to": N}, a step every 100 ms, and goes on where it was if it is killed.
 *
 *   redisq-supervisor -e -q count -k pipe -- php etc/handlers/php/count.php
 *   redisqctl push count '{"to": 50}'
 */

require __DIR__ . '/redisq.php';

Redisq\run(function (Redisq\Task $task) {
    $to = $task->json()['to'] ?? null;
    if (!is_int($to)) {
        throw new Redisq\Dead('say {"to": N}');
    }
    for ($n = $task->saved ?? 0; $n < $to; $n++) {
        if ($why = $task->cancelled()) {
            throw new Redisq\Retry("stopped at $n: $why");
        }
        usleep(100000);
        $task->checkpoint($n + 1);
        $task->progress(($n + 1) . " of $to");
    }
    echo "counted to $to in attempt {$task->attempt}\n";
    return ['counted' => $to];
});
