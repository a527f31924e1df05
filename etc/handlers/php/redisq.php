<?php

/*
 * redisq: task handlers in PHP. One file, no packages, PHP 8.0 or later; copy it.
 *
 *   require __DIR__ . '/redisq.php';
 *
 *   Redisq\run(function (Redisq\Task $task) {
 *       $user = $task->json()['user'] ?? throw new Redisq\Dead('no user');  // never to be tried again
 *       return ['greeted' => $user];                                        // done; the result
 *   });
 *
 *   [queue mail]
 *   handler = pipe php mail.php        # children that stay, each with one task at a time
 *   handler = exec php mail.php        # the same file, one process per task
 *
 * How a task ends: the function returns = done. It throws Dead = dead letter at once; Snooze = not
 * now, no attempt charged; Retry = failed, and may say when to try again; anything else = failed
 * attempt, with the exception's text; the trace goes to the log. A fatal error ends the child: that
 * is a crash of the task (max_crashes).
 *
 * Cancelling (timeout, drain limit, lost lease): PHP runs one thing at a time, so a long handler
 * asks $task->cancelled() now and then. What is not over within kill_grace is killed.
 *
 * echo and errors are logs. fd 3 is the way to the worker: start php itself, not through sudo.
 */

namespace Redisq;

/** The task can never work: a dead letter at once. */
class Dead extends \Exception
{
}

/** A failed attempt that may say when to try again. */
class Retry extends \Exception
{
    public function __construct(string $message = '', public ?int $delayMs = null)
    {
        parent::__construct($message);
    }
}

/** Not now: tried again later, no attempt charged. */
class Snooze extends \Exception
{
    public function __construct(public ?int $delayMs = null)
    {
        parent::__construct('snoozed');
    }
}

/**
 * One task. Payload and fields are byte strings.
 *
 * id: the same in all attempts; with queue the idempotency key. attempt: from 1. deliveries: all
 * hands it went through, this one included. enqueuedAtMs, deadlineMs: Unix time; deadlineMs is null
 * without a timeout. saved: the last checkpoint(), of an earlier attempt too.
 */
final class Task
{
    public string $id;
    public string $queue;
    public ?int $attempt;
    public ?int $maxAttempts;
    public ?int $deliveries;
    public ?int $enqueuedAtMs;
    public ?int $deadlineMs;
    public ?string $payload;
    /** @var array<string, string> */
    public array $fields;
    public mixed $saved;

    public function __construct(private Worker $worker, array $line)
    {
        $this->id = $line['id'];
        $this->queue = $line['queue'] ?? '';
        $this->attempt = $line['attempt'] ?? null;
        $this->maxAttempts = $line['max_attempts'] ?? null;
        $this->deliveries = $line['deliveries'] ?? null;
        $this->enqueuedAtMs = $line['enqueued_at_ms'] ?? null;
        $this->deadlineMs = $line['deadline_ms'] ?? null;
        $this->payload = isset($line['payload_b64'])
            ? base64_decode($line['payload_b64']) : $line['payload'] ?? null;
        $this->fields = ($line['fields'] ?? []) + array_map('base64_decode', $line['fields_b64'] ?? []);
        $this->saved = $line['checkpoint'] ?? null;
    }

    /** The payload as JSON, objects as arrays; throws Dead if it is none. */
    public function json(): mixed
    {
        try {
            return json_decode((string) $this->payload, true, 512, JSON_THROW_ON_ERROR);
        } catch (\JsonException $e) {
            throw new Dead('the payload is not JSON: ' . $e->getMessage());
        }
    }

    /** Keeps any JSON value (up to 64 KiB) with the task: the next attempt has it as saved, also
     * after a crash. */
    public function checkpoint(mixed $value): void
    {
        $this->saved = $value;
        $this->worker->say(['type' => 'checkpoint', 'id' => $this->id, 'value' => $value]);
    }

    /** Any JSON value for `redisqctl show`: 40, "3 of 7", [...]. */
    public function progress(mixed $value): void
    {
        $this->worker->say(['type' => 'progress', 'id' => $this->id, 'value' => $value]);
    }

    /** Why it is to stop; null = it is not. */
    public function cancelled(): ?string
    {
        return $this->worker->cancelled($this);
    }
}

/** The two pipes of a child. For run(). */
final class Worker
{
    /** @var resource */
    private $answers;
    private string $read = '';
    /** @var array<string, string> */
    private array $cancelled = [];
    /** @var list<array> */
    private array $waiting = [];
    private bool $draining = false;
    private bool $closed = false;

    public function __construct(int $fd, private bool $withIds)
    {
        $answers = @fopen("php://fd/$fd", 'wb');
        // Closed, it has become the script's file: only a pipe or a socket leads to the worker.
        $kind = $answers ? fstat($answers)['mode'] & 0170000 : 0;
        if ($kind !== 0010000 && $kind !== 0140000) {
            fwrite(STDERR, "redisq: fd $fd is closed. Handlers are started by redisq-worker; sudo and "
                . "the like close it: start php itself\n");
            exit(1);
        }
        stream_set_write_buffer($answers, 0);
        $this->answers = $answers;
    }

    public function say(array $line): void
    {
        if (!$this->withIds) {
            unset($line['id']);
        }
        $flags = JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR;
        $text = json_encode($line, $flags) . "\n";
        for ($at = 0; $at < strlen($text); $at += $n) {
            $n = fwrite($this->answers, substr($text, $at));
            if ($n === false) {
                exit(1); // the worker is gone
            }
        }
    }

    public function cancelled(Task $task): ?string
    {
        if ($this->withIds) {
            $this->pull(0);
        }
        return $this->cancelled[$task->id] ?? null;
    }

    /** The next task; null: there are no more. */
    public function next(): ?Task
    {
        $this->cancelled = [];
        while (!$this->waiting && !$this->draining && !$this->closed) {
            $this->pull(null);
        }
        return $this->waiting ? new Task($this, array_shift($this->waiting)) : null;
    }

    /** Reads what is there; $seconds null: waits for something. */
    private function pull(?int $seconds): void
    {
        while (!$this->closed) {
            $r = [STDIN];
            $w = $e = null;
            if (!stream_select($r, $w, $e, $seconds)) {
                return;
            }
            $chunk = fread(STDIN, 65536);
            if ($chunk === '' || $chunk === false) {
                $this->closed = feof(STDIN);
                return;
            }
            $this->read .= $chunk;
            $lines = explode("\n", $this->read);
            $this->read = array_pop($lines);
            foreach ($lines as $text) {
                $this->onLine(json_decode($text, true, 512, JSON_THROW_ON_ERROR));
            }
            if ($lines) {
                return;
            }
        }
    }

    private function onLine(array $line): void
    {
        switch ($line['type'] ?? '') {
            case 'task':
                $this->waiting[] = $line;
                break;
            case 'cancel':
                $this->cancelled[$line['id']] = $line['reason'] ?? 'cancelled';
                break;
            case 'drain':
                $this->draining = true;
                break;
        }
    }
}

/** Runs one task and says its last word. For run(). */
function serve(Worker $worker, Task $task, callable $handler): void
{
    try {
        $result = $handler($task);
        $line = ['type' => 'done', 'id' => $task->id];
        if ($result !== null) {
            $line['result'] = $result;
        }
        $worker->say($line);
    } catch (Dead $e) {
        $worker->say(['type' => 'dead', 'id' => $task->id, 'error' => $e->getMessage()]);
    } catch (Snooze $e) {
        $delay = $e->delayMs === null ? [] : ['delay_ms' => $e->delayMs];
        $worker->say(['type' => 'snooze', 'id' => $task->id] + $delay);
    } catch (Retry $e) {
        $delay = $e->delayMs === null ? [] : ['delay_ms' => $e->delayMs];
        $worker->say(['type' => 'retry', 'id' => $task->id, 'error' => $e->getMessage()] + $delay);
    } catch (\Throwable $e) {
        fwrite(STDERR, "$e\n");
        $worker->say(['type' => 'retry', 'id' => $task->id,
            'error' => get_class($e) . ': ' . $e->getMessage()]);
    }
}

/** Started once per task: the task is in the environment and on stdin. For run(). */
function run_one(callable $handler): void
{
    $number = fn (string $name): ?int => getenv($name) === false ? null : (int) getenv($name);
    $fields = json_decode(getenv('REDISQ_FIELDS') ?: '{}', true);
    $saved = getenv('REDISQ_CHECKPOINT');
    $worker = new Worker($number('REDISQ_ANSWER_FD') ?? 3, false);
    $task = new Task($worker, [
        'id' => getenv('REDISQ_ID'), 'queue' => getenv('REDISQ_QUEUE'),
        'attempt' => $number('REDISQ_ATTEMPT'), 'max_attempts' => $number('REDISQ_MAX_ATTEMPTS'),
        'deliveries' => $number('REDISQ_DELIVERIES'),
        'enqueued_at_ms' => $number('REDISQ_ENQUEUED_AT_MS'),
        'deadline_ms' => $number('REDISQ_DEADLINE_MS'),
        'payload' => stream_get_contents(STDIN),
        'fields_b64' => $fields['fields_b64'] ?? null,
        'fields' => array_diff_key($fields, ['fields_b64' => null]),
        // A string comes without its quotes.
        'checkpoint' => $saved === false ? null : json_decode($saved, true) ?? $saved,
    ]);
    serve($worker, $task, $handler);
}

/** Serves tasks until there are no more; returns then. */
function run(callable $handler): void
{
    if (getenv('REDISQ_ID') !== false) {
        run_one($handler);
        return;
    }
    $worker = new Worker(3, true);
    $worker->say(['type' => 'ready', 'slots' => 1]);
    while ($task = $worker->next()) {
        serve($worker, $task, $handler);
    }
}
