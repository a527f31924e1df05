#!/usr/bin/env ruby
# frozen_string_literal: true

# An example: counts to {"to": N}, a step every 100 ms, and goes on where it was if it is killed.
#
#   redisq-supervisor -e -q count -k pipe -- ruby etc/handlers/ruby/count.rb
#   redisqctl push count '{"to": 50}'
require_relative 'redisq'

Redisq.run(slots: 4) do |task|
  to = task.json['to']
  raise Redisq::Dead, 'say {"to": N}' unless to.is_a?(Integer)

  (task.saved || 0).upto(to - 1) do |n|
    sleep 0.1
    task.checkpoint(n + 1)
    task.progress("#{n + 1} of #{to}")
  end
  puts "counted to #{to} in attempt #{task.attempt}"
  { counted: to }
end
