<?php

/* Does what test_languages.py asks for, in PHP. */

require getenv('HANDLERS') . '/php/redisq.php';

Redisq\run(function (Redisq\Task $task) {
    if (!preg_match('//u', $task->payload)) {
        return ['bytes' => strlen($task->payload), 'last' => ord(substr($task->payload, -1))];
    }
    $want = $task->json();
    switch ($want['do']) {
        case 'echo':
            return ['id' => $task->id, 'queue' => $task->queue, 'attempt' => $task->attempt,
                'saved' => $task->saved, 'field' => $task->fields['colour'], 'text' => $want['text']];
        case 'nothing':
            return null;
        case 'fail':
            throw new RuntimeException('it failed');
        case 'dead':
            throw new Redisq\Dead('no such user');
        case 'retry':
            throw new Redisq\Retry('busy', 5000);
        case 'snooze':
            throw new Redisq\Snooze(60000);
        case 'wait':
            while (!($why = $task->cancelled())) {
                usleep(1000);
            }
            throw new Redisq\Retry("cancelled: $why");
        case 'note':
            $task->checkpoint(['job' => 7]);
            $task->progress('half');
            return ['saved' => $task->saved];
        case 'print':
            echo str_repeat('x', 99), "\n", str_repeat("{\"type\":\"dead\"}\n", 10000);
    }
    return 'printed';
});
