"""Memories, what one who recalled them writes again, and what is new beside them: to tune on.

A memory follows "#"; after "=" it is told again, after "!" something else is told. They were written
before the rules: at first sight 53 of 200 were found, and 1 of 150 that tell something new was refused.
"""

from __future__ import annotations

from typing import Final

ECHOES_TUNED: Final = """
# I prefer tea over coffee in the morning.
= The user prefers tea over coffee in the morning.
= User prefers tea over coffee in the mornings.
= - prefers tea over coffee in the morning
= {"preference": "tea over coffee in the morning"}
= Key takeaway: In the morning, the user prefers tea over coffee.
= [2026-03-02] user: I prefer tea over coffee in the morning
= Earlier we noted that the user prefers tea over coffee in the morning.
= **Preference:** the user preferred tea over coffee in the morning
! I prefer coffee over tea in the morning.
! The user prefers tea over coffee in the evening.
! The user does not prefer tea over coffee in the morning.
! The user no longer prefers tea over coffee in the morning.
! Bob prefers tea over coffee in the morning.
! The user prefers tea over coffee in the morning, with two sugars.
# The production database was migrated to Postgres 17 on March 3, 2026.
= The production database was migrated to Postgres 17 on 2026-03-03.
= We migrated the production database to Postgres 17 on 3 March 2026.
= On March 3, 2026, the production database was migrated to Postgres 17.
= * Production database migrated to Postgres 17 (March 3, 2026)
= Fact (confidence 0.9): the production database was migrated to Postgres 17 on March 3rd, 2026.
= {"fact": "The production database was migrated to Postgres 17 on March 3, 2026.", "confidence": 0.95}
= It was mentioned earlier that the production database had been migrated to Postgres 17.
= production database migrated to Postgres 17
! The production database was migrated to Postgres 18 on March 3, 2026.
! The production database was migrated to Postgres 17 on March 13, 2026.
! The staging database was migrated to Postgres 17 on March 3, 2026.
! The production database was not migrated to Postgres 17 on March 3, 2026.
! The production database will be migrated to Postgres 17 on April 3, 2026.
! The production database was rolled back from Postgres 17 on March 4, 2026.
# We decided to use Kafka instead of RabbitMQ for the event pipeline because ordering matters.
= The team decided to use Kafka instead of RabbitMQ for the event pipeline because ordering matters.
= Decision: use Kafka instead of RabbitMQ for the event pipeline because ordering matters
= Because ordering matters, we decided to use Kafka instead of RabbitMQ for the event pipeline.
= It was decided to use Kafka instead of RabbitMQ for the event pipeline.
= Kafka was chosen instead of RabbitMQ for the event pipeline because ordering matters.
= - We've decided to use Kafka instead of RabbitMQ for the event pipeline, because ordering matters.
= As discussed, they decided on using Kafka instead of RabbitMQ for the event pipeline.
= "decision": "We decided to use Kafka instead of RabbitMQ for the event pipeline because ordering matters."
! We decided to use RabbitMQ instead of Kafka for the event pipeline because ordering matters.
! We decided to use Kafka instead of NATS for the event pipeline because ordering matters.
! We decided to use Kafka for the audit pipeline because ordering matters.
! We decided against Kafka for the event pipeline because operations are costly.
! Ordering in the event pipeline broke when the Kafka partitions were resized.
! We may use Kafka instead of RabbitMQ for the event pipeline.
# To deploy, run the migrations first, then restart the workers.
= To deploy: run the migrations first, then restart the workers.
= Deployment procedure: run the migrations first, then restart the workers
= 1. Run the migrations first. 2. Restart the workers.
= When deploying, first run the migrations, then restart the workers.
= Deploying requires running the migrations first, then restarting the workers.
= The agent noted that to deploy one should run the migrations first, then restart the workers.
= run migrations first then restart workers
= Remember: to deploy, run the migrations first and then restart the workers.
! To deploy, restart the workers first, then run the migrations.
! To deploy, run the migrations first, then restart the scheduler.
! To roll back, run the migrations first, then restart the workers.
! To deploy, never run the migrations first.
! To deploy, run the migrations first, then restart the workers and clear the cache.
! The workers must not be restarted while the migrations run.
# The invoice from Hetzner for April is 412.50 euros and is due on May 15.
= Hetzner's invoice for April is 412.50 euros and is due on May 15.
= The April invoice from Hetzner is 412.50 euros, due on 15 May.
= The invoice from Hetzner for April is €412.50 and is due on May 15.
= The invoice from Hetzner for April is due on May 15.
= Note: The invoice from Hetzner for April is 412.50 euros and it's due May 15.
= {"invoice": "Hetzner", "text": "The invoice from Hetzner for April is 412.50 euros and is due on May 15"}
= The user said the invoice from Hetzner for April is 412.50 euros and is due on May 15th.
= THE INVOICE FROM HETZNER FOR APRIL IS 412.50 EUROS
! The invoice from Hetzner for April is 421.50 euros and is due on May 15.
! The invoice from Hetzner for May is 412.50 euros and is due on June 15.
! The invoice from Hetzner for April is 412.50 euros and was paid on May 15.
! The invoice from OVH for April is 412.50 euros and is due on May 15.
! The invoice from Hetzner for April is 412.50 dollars and is due on May 15.
! The invoice from Hetzner for April is due on May 25.
# Alice owes Bob twenty euros for the concert tickets.
= Alice owes Bob 20 euros for the concert tickets.
= Bob is owed twenty euros by Alice for the concert tickets.
= For the concert tickets, Alice owes Bob twenty euros.
= - Alice owes Bob €20 for the concert tickets
= According to the conversation, Alice owes Bob twenty euros for the concert tickets.
= Alice owed Bob twenty euros for the concert tickets.
= Alice owes Bob twenty euros.
= "Alice owes Bob twenty euros for the concert tickets" was recalled.
! Bob owes Alice twenty euros for the concert tickets.
! Alice owes Bob thirty euros for the concert tickets.
! Alice paid Bob twenty euros for the concert tickets.
! Alice owes Carol twenty euros for the concert tickets.
! Alice owes Bob twenty euros for the train tickets.
! Alice doesn't owe Bob twenty euros for the concert tickets.
# My sister Marta lives in Lisbon and works as a nurse.
= The user's sister Marta lives in Lisbon and works as a nurse.
= The user has a sister, Marta, who lives in Lisbon and works as a nurse.
= Marta, the user's sister, works as a nurse and lives in Lisbon.
= User's sister Marta lives in Lisbon.
= * sister Marta: lives in Lisbon, works as a nurse
= {"text": "My sister Marta lives in Lisbon and works as a nurse."}
= The user mentioned that their sister Marta is living in Lisbon and working as a nurse.
= Marta works as a nurse.
! My sister Marta lives in Porto and works as a nurse.
! My sister Marta lives in Lisbon and works as a doctor.
! My cousin Marta lives in Lisbon and works as a nurse.
! My sister Marta used to live in Lisbon.
! My sister Marta lives in Lisbon and works as a nurse in a children's hospital.
! My sister Ines lives in Lisbon and works as a nurse.
# The API rate limit is 100 requests per minute per token.
= API rate limit: 100 requests per minute per token
= The rate limit of the API is 100 requests per minute per token.
= The API's rate limit is one hundred requests per minute per token.
= The API is rate limited to 100 requests per minute per token.
= Summary: The API rate limit is 100 requests per minute per token.
= > The API rate limit is 100 requests per minute per token.
= We recall that the API rate limit is 100 requests per minute.
= rate_limit: The API rate limit is `100` requests per minute per token
! The API rate limit is 1000 requests per minute per token.
! The API rate limit is 100 requests per second per token.
! The API rate limit is 100 requests per minute per address.
! The API rate limit was raised to 200 requests per minute per token.
! The API has no rate limit per token.
! The upload rate limit is 100 requests per minute per token.
# Do not restart the ingest service during the nightly backup; it corrupts the index.
= Don't restart the ingest service during the nightly backup; it corrupts the index.
= Never restart the ingest service during the nightly backup, as it corrupts the index.
= The ingest service must not be restarted during the nightly backup because it corrupts the index.
= During the nightly backup, do not restart the ingest service.
= Warning: do not restart the ingest service during the nightly backup. It corrupts the index.
= Restarting the ingest service during the nightly backup corrupts the index.
= Lesson learned: don't restart ingest service during nightly backup; it corrupts index
= ## Procedures\\n- Do not restart the ingest service during the nightly backup; it corrupts the index.
! Restart the ingest service during the nightly backup; it repairs the index.
! Do not restart the ingest service during the weekly backup; it corrupts the index.
! Do not restart the search service during the nightly backup; it corrupts the index.
! Do not restart the ingest service during the nightly backup; it corrupts the queue.
! The ingest service may be restarted during the nightly backup since version 3.
! Do not stop the ingest service during the nightly backup.
# Ada: I can't eat gluten, so please book restaurants with gluten-free options.
= Ada can't eat gluten, so please book restaurants with gluten-free options.
= Ada cannot eat gluten.
= Ada said that she cannot eat gluten, so please book restaurants with gluten-free options.
= The user can't eat gluten, so restaurants with gluten-free options should be booked.
= - Ada: can't eat gluten; book restaurants with gluten-free options
= [09:14] Ada: I cannot eat gluten, so please book restaurants with gluten-free options.
= {"speaker": "Ada", "content": "I can't eat gluten, so please book restaurants with gluten-free options."}
= Please book restaurants with gluten-free options.
! Ada: I can eat gluten, so please book any restaurant.
! Ada: I can't eat lactose, so please book restaurants with lactose-free options.
! Ben: I can't eat gluten, so please book restaurants with gluten-free options.
! Ada: I can't eat gluten, so please don't book restaurants without calling me.
! Ada: I might not eat gluten next week.
! Ada: I can't eat gluten or nuts, so please book restaurants with suitable options.
# The quarterly review meeting takes place on the first Tuesday of each quarter at 10:00 in room 4.
= The quarterly review meeting takes place on the 1st Tuesday of each quarter at 10:00 in room 4.
= The quarterly review meeting takes place at 10:00 in room 4 on the first Tuesday of each quarter.
= Quarterly review meeting: first Tuesday of each quarter, 10:00, room 4
= The quarterly review meeting takes place on the first Tuesday of every quarter at 10 am in room four.
= quarterly review meeting takes place on first Tuesday of each quarter
= It is known that the quarterly review meeting takes place on the first Tuesday of each quarter at 10:00 in room 4.
= The quarterly review meeting is on the first Tuesday of each quarter at 10:00 in room 4.
= Event — the quarterly review meeting takes place on the first Tuesday of each quarter at 10:00 in room 4
! The quarterly review meeting takes place on the second Tuesday of each quarter at 10:00 in room 4.
! The quarterly review meeting takes place on the first Thursday of each quarter at 10:00 in room 4.
! The quarterly review meeting takes place on the first Tuesday of each quarter at 11:00 in room 4.
! The quarterly review meeting takes place on the first Tuesday of each quarter at 10:00 in room 6.
! The monthly review meeting takes place on the first Tuesday of each month at 10:00 in room 4.
! The quarterly review meeting on the first Tuesday was cancelled.
# The bug in the importer was caused by a missing index on the events table. Adding it cut the run from 40 minutes to 2 minutes.
= The bug in the importer was caused by a missing index on the events table. Adding it cut the run from forty minutes to two minutes.
= A missing index on the events table caused the bug in the importer.
= Adding it cut the run from 40 minutes to 2 minutes.
= The importer bug was caused by a missing index on the events table; adding it cut the run from 40 minutes to 2 minutes.
= Root cause: the bug in the importer was caused by a missing index on the events table.
= We learned that the bug in the importer was caused by a missing index on the events table.
= - importer bug: caused by missing index on events table\\n- adding it cut the run from 40 minutes to 2 minutes
= {"cause": "missing index on the events table", "effect": "bug in the importer"}
! The bug in the importer was caused by a missing index on the users table.
! The bug in the importer was caused by a stale cache, not by a missing index.
! Adding it cut the run from 40 minutes to 12 minutes.
! The bug in the exporter was caused by a missing index on the events table.
! Removing it cut the run from 40 minutes to 2 minutes.
! The missing index on the events table also slows the report by 5 minutes.
# The client may extend the contract by one year.
= The client may extend the contract by 1 year.
= The contract may be extended by one year by the client.
= The client may extend contract by one year
= Contract note: The client may extend the contract by one year.
= It was stated that the client may extend the contract by one year.
= By one year, the client may extend the contract.
= I noted that the client might extend the contract by one year.
= `The client may extend the contract by one year.`
! The client must extend the contract by one year.
! The client may not extend the contract by one year.
! The client may extend the contract by two years.
! The client may terminate the contract after one year.
! The supplier may extend the contract by one year.
! The client extended the contract by one year.
# Our staging server has three GPUs and 256 GB of memory.
= The staging server has 3 GPUs and 256 GB of memory.
= Our staging server has three GPUs.
= The staging server's got three GPUs and 256GB of memory.
= The team's staging server has 256 GB of memory and three GPUs.
= Staging server: three GPUs, 256 GB memory
= <memory>Our staging server has three GPUs and 256 GB of memory.</memory>
= Infrastructure (2026-02-01): our staging server has three GPUs and 256 GB of memory
= They have three GPUs and 256 GB of memory on the staging server.
! Our staging server has four GPUs and 256 GB of memory.
! Our staging server has three GPUs and 512 GB of memory.
! Our production server has three GPUs and 256 GB of memory.
! Our staging server had three GPUs until the fire and now has none.
! Our staging server has three GPUs and 256 TB of memory.
! Our staging server needs three more GPUs.
# The user asked for weekly reports to be sent in French.
= The user asked that weekly reports be sent in French.
= I asked for weekly reports to be sent in French.
= Weekly reports should be sent in French.
= The user wants weekly reports to be sent in French.
= user asked for weekly reports in French
= As noted before: the user asked for weekly reports to be sent in French.
= Preference: "The user asked for weekly reports to be sent in French."
= The user asks for the weekly report to be sent in French.
! The user asked for weekly reports to be sent in German.
! The user asked for daily reports to be sent in French.
! The user asked for weekly reports not to be sent in French.
! The user asked for weekly reports to be sent to Claire in French.
! The user asked for weekly invoices to be sent in French.
! Claire asked for weekly reports to be sent in French.
# Tests run with pytest -n 4; the flaky ones are marked with xfail.
= Tests run with `pytest -n 4`; the flaky ones are marked with `xfail`.
= Tests are run with pytest -n 4 and the flaky ones are marked with xfail.
= The flaky ones are marked with xfail; tests run with pytest -n 4.
= Test setup: tests run with pytest -n 4; the flaky ones are marked with xfail
= We run tests with pytest -n 4.
= The flaky tests are marked with xfail.
= Recalled: Tests run with pytest -n 4; flaky ones marked with xfail.
= The assistant mentioned that tests run with pytest -n 4; the flaky ones are marked with xfail.
! Tests run with pytest -n 8; the flaky ones are marked with xfail.
! Tests run with pytest -n 4; the flaky ones are marked with skip.
! Tests run with tox -n 4; the flaky ones are marked with xfail.
! Tests no longer run with pytest -n 4.
! Tests run with pytest -n 4 only on Linux.
! The slow ones are marked with xfail.
# Jonas is allergic to peanuts.
= Jonas is allergic to peanuts
= Jonas has an allergy to peanuts.
= Jonas: allergic to peanuts
= allergic to peanuts (Jonas)
= {"name": "Jonas", "fact": "allergic to peanuts"}
= Important: Jonas is allergic to peanuts!
= The user told me that Jonas is allergic to peanuts.
= It seems Jonas is allergic to peanuts.
! Jonas is allergic to walnuts.
! Jonas isn't allergic to peanuts.
! Jana is allergic to peanuts.
! Jonas is allergic to peanuts and shellfish.
! Jonas was tested and is mildly allergic to cats.
! Jonas outgrew being allergic to peanuts.
# The password policy requires twelve characters, and passwords expire after 90 days.
= The password policy requires 12 characters, and passwords expire after ninety days.
= Passwords expire after 90 days, and the password policy requires twelve characters.
= Twelve characters are required by the password policy.
= Password policy requires twelve characters; passwords expire after 90 days
= Security: the password policy requires twelve characters
= The policy for passwords requires twelve characters, and passwords expire after 90 days.
= To summarize, the password policy requires twelve characters and passwords expire after 90 days.
= passwords expire after 90 days
! The password policy requires sixteen characters, and passwords expire after 90 days.
! The password policy requires twelve characters, and passwords never expire.
! Passwords expire after 30 days.
! The password policy recommends twelve characters.
! The password policy requires twelve characters and one digit.
! Tokens expire after 90 days.
# I moved from Berlin to Vienna last year.
= The user moved from Berlin to Vienna last year.
= Last year the user moved from Berlin to Vienna.
= Last year, I moved to Vienna from Berlin.
= User moved Berlin to Vienna last year
= {"user_fact": "moved from Berlin to Vienna last year"}
= The user has moved from Berlin to Vienna.
= From memory: I moved from Berlin to Vienna last year.
= The user stated they moved from Berlin to Vienna last year.
! I moved from Vienna to Berlin last year.
! I moved from Berlin to Graz last year.
! I moved from Berlin to Vienna last month.
! I am moving from Vienna to Graz next year.
! My boss moved from Berlin to Vienna last year.
! I moved from Berlin to Vienna last year because of my mother.
# The cache must be cleared after every release, or the old prices are shown.
= After every release, the cache must be cleared, or the old prices are shown.
= Clear the cache after every release, or the old prices are shown.
= The cache must be cleared after each release.
= Otherwise the old prices are shown.
= Cache must be cleared after every release, otherwise old prices are shown.
= Rule: cache must be cleared after every release or old prices shown
= You must clear the cache after every release, or the old prices are shown.
= Noted previously – "the cache must be cleared after every release, or the old prices are shown".
! The cache must be cleared before every release, or the old prices are shown.
! The cache must be cleared after every release, or the new prices are shown.
! The cache may be cleared after every release.
! The cache must be cleared after every second release.
! The cache must not be cleared after every release.
! The log must be cleared after every release, or the disk fills up.
# Project Aurora's budget was cut by 15 percent in the second quarter.
= The budget of Project Aurora was cut by 15 percent in the second quarter.
= Project Aurora's budget was cut by 15% in the second quarter.
= In the second quarter, Project Aurora's budget was cut by fifteen percent.
= Project Aurora's budget was cut by 15 percent in the 2nd quarter.
= Budget update: Project Aurora's budget was cut by 15 percent
= They cut Project Aurora's budget by 15 percent in the second quarter.
= In our last conversation we established that Project Aurora's budget was cut by 15 percent in the second quarter.
= project aurora's budget cut by 15 percent in second quarter
! Project Aurora's budget was raised by 15 percent in the second quarter.
! Project Aurora's budget was cut by 50 percent in the second quarter.
! Project Aurora's budget was cut by 15 percent in the third quarter.
! Project Borealis's budget was cut by 15 percent in the second quarter.
! Project Aurora's headcount was cut by 15 percent in the second quarter.
! Project Aurora's budget was cut by 15 percent in the second quarter and by 5 percent in the third.
# Assistant: The retry helper doubles the delay after each failure and gives up after six attempts.
= The retry helper doubles the delay after each failure and gives up after six attempts.
= The retry helper gives up after 6 attempts.
= After each failure, the retry helper doubles the delay.
= I said that the retry helper doubles the delay after each failure and gives up after six attempts.
= retry helper: doubles delay after each failure, gives up after six attempts
= The delay is doubled by the retry helper after each failure.
= assistant said: "The retry helper doubles the delay after each failure and gives up after six attempts."
= The retry helper is doubling the delay after every failure and giving up after six attempts
! The retry helper doubles the delay after each failure and gives up after ten attempts.
! The retry helper triples the delay after each failure and gives up after six attempts.
! The retry helper doubles the delay after each failure and never gives up.
! The retry helper halves the delay after each success.
! The retry helper doubles the delay after each failure and logs every attempt.
! The lock helper gives up after six attempts.
# Priya approved Tom's refund request on 2026-01-12.
= Tom's refund request was approved by Priya on 2026-01-12.
= Priya approved Tom's refund request on January 12, 2026.
= On 12 January 2026 Priya approved Tom's refund request.
= Priya approved Tom's refund request.
= Priya has approved the refund request of Tom.
= Approval: Priya approved Tom's refund request on 2026-01-12
= The conversation shows that Priya approved Tom's refund request on 12.01.2026.
= {"event": "Priya approved Tom's refund request", "date": "2026-01-12"}
! Tom approved Priya's refund request on 2026-01-12.
! Priya rejected Tom's refund request on 2026-01-12.
! Priya approved Tom's refund request on 2026-01-21.
! Priya approved Tim's refund request on 2026-01-12.
! Priya approved Tom's travel request on 2026-01-12.
! Priya approved part of Tom's refund request on 2026-01-12.
# Most customers in Spain pay by card; only a few pay cash.
= In Spain, most customers pay by card; only a few pay cash.
= Most customers in Spain pay by card.
= Most of the customers in Spain pay by card and only a few pay cash.
= Insight: most customers in Spain pay by card, only a few pay cash
= Most Spanish customers pay by card; only a few pay cash.
= Most customers in Spain are paying by card; only a few are paying cash.
= We know that most customers in Spain pay by card.
= *Most customers in Spain pay by card; only a few pay cash.*
! Some customers in Spain pay by card; only a few pay cash.
! All customers in Spain pay by card.
! Most customers in Portugal pay by card; only a few pay cash.
! Most customers in Spain pay by card; nobody pays cash.
! Most customers in Spain pay cash; only a few pay by card.
! Most customers in Spain pay by card, but older ones prefer transfers.
# If the queue has more than 500 jobs, add two workers; they're removed when it drains.
= If the queue has more than 500 jobs, add 2 workers; they are removed when it drains.
= Add two workers if the queue has more than 500 jobs.
= When the queue has more than five hundred jobs, add two workers; they're removed when it drains.
= Two workers are added if the queue has more than 500 jobs.
= Scaling rule: if queue has more than 500 jobs, add two workers; removed when it drains
= The workers are removed when the queue drains.
= - If the queue has > 500 jobs, add two workers; they're removed when it drains.
= The agent should remember that if the queue has more than 500 jobs, two workers are added.
! If the queue has fewer than 500 jobs, add two workers; they're removed when it drains.
! If the queue has more than 5000 jobs, add two workers; they're removed when it drains.
! If the queue has more than 500 jobs, remove two workers.
! If the queue has more than 500 jobs, page the operator.
! If the queue has more than 500 jobs, add two workers unless it is night.
! If the disk has more than 500 jobs, add two workers; they're removed when it drains.
"""
